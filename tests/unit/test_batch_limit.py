"""The limit of a step that ran out of memory."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.batch_limit import GROW_AFTER, BatchLimits


def test_it_halves_what_failed_and_never_falls_below_one():
    limits = BatchLimits(16)
    for size, left in ((16, 8), (8, 4), (3, 1), (1, 1)):
        limits.shrink("long", size)
        assert limits.of("long") == left
        limits.check_integrity()
    assert limits.of("short") == 16


def test_a_small_step_that_fails_says_more_than_a_large_limit():
    limits = BatchLimits(64)
    limits.shrink("long", 6)
    assert limits.of("long") == 3


def test_it_grows_by_one_after_many_full_steps_and_not_by_others():
    limits = BatchLimits(4)
    limits.shrink("long", 4)
    for _ in range(10 * GROW_AFTER):
        limits.went_well("long", 1)
        limits.went_well("short", 2)
    assert limits.of("long") == 2
    for _ in range(GROW_AFTER):
        assert limits.of("long") == 2
        limits.went_well("long", 2)
    assert limits.of("long") == 3
    for _ in range(GROW_AFTER):
        limits.went_well("long", 3)
    assert limits.of("long") == 4
    limits.check_integrity()


@given(st.integers(1, 9), st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.booleans()), max_size=50))
def test_any_history_keeps_it_within_one_and_most(most, steps):
    limits = BatchLimits(most)
    for group, size, failed in steps:
        size = min(size, limits.of(group))
        if failed:
            limits.shrink(group, size)
            assert limits.of(group) <= max(1, size // 2)
        else:
            limits.went_well(group, size)
        assert 1 <= limits.of(group) <= most
        limits.check_integrity()
