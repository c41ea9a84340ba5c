"""When a cache rests, and when it is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.cache_worth import CacheWorth, Turn, WorthPolicy

POLICY = WorthPolicy(window=100, patience=3, low=0.02, high=0.05, rest_s=60)


def look(worth, times, *, found=0, now=0.0):
    """So many look-ups, of which the first `found` find something; what was decided."""
    turns = []
    for number in range(times):
        if (turn := worth.begin(now)) is not None:
            turns.append(turn)
        if (turn := worth.looked_up(now, found=number < found)) is not None:
            turns.append(turn)
        worth.check_integrity()
    return turns


@pytest.fixture
def worth():
    return CacheWorth(POLICY)


def test_a_cache_that_finds_nothing_rests_after_the_last_of_its_windows(worth):
    assert look(worth, 299) == []
    assert not worth.resting
    assert look(worth, 1) == [Turn.RESTS]
    assert worth.resting


def test_a_window_that_finds_just_enough_lets_all_windows_before_it_be_forgotten(worth):
    look(worth, 200)
    assert look(worth, 100, found=2) == []
    assert look(worth, 200) == []
    assert not worth.resting


def test_a_window_just_below_counts_as_poor(worth):
    for _ in range(2):
        assert look(worth, 100, found=1) == []
    assert look(worth, 100, found=1) == [Turn.RESTS]


def test_a_cache_is_tried_when_its_rest_is_over_and_not_before(worth):
    look(worth, 300)
    assert worth.begin(59.9) is None
    assert worth.resting
    assert worth.begin(60.0) is Turn.TRIED
    assert not worth.resting
    assert worth.begin(60.1) is None


def test_what_would_have_kept_it_before_its_rest_does_not_bring_it_back(worth):
    look(worth, 300)
    worth.begin(60.0)
    assert look(worth, 200, found=4, now=60.0) == []
    assert look(worth, 100, found=4, now=60.0) == [Turn.RESTS]
    assert worth.begin(119.9) is None
    assert worth.begin(120.0) is Turn.TRIED


def test_a_trial_that_finds_enough_brings_it_back_on_the_old_terms(worth):
    look(worth, 300)
    worth.begin(60.0)
    assert look(worth, 100, found=5, now=60.0) == [Turn.STAYS]
    for _ in range(10):
        assert look(worth, 100, found=2, now=60.0) == []


def test_a_look_up_that_ends_while_the_cache_rests_counts_nowhere(worth):
    look(worth, 300)
    assert worth.looked_up(1.0, found=True) is None
    worth.check_integrity()
    worth.begin(60.0)
    assert look(worth, 300, now=60.0) == [Turn.RESTS]


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1), st.floats(0, 40)), max_size=60))
def test_whatever_is_looked_up_the_ledger_holds_and_a_rest_lasts_its_time(steps):
    worth, now, rested_at = CacheWorth(WorthPolicy(window=10, patience=2, low=0.2, high=0.3, rest_s=60)), 0.0, 0.0
    for looks, share, passed_s in steps:
        now += passed_s
        for turn in look(worth, looks, found=int(share * looks), now=now):
            if turn is Turn.TRIED:
                assert now - rested_at >= 60
            if turn is Turn.RESTS:
                rested_at = now
