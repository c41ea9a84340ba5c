"""How long a first pass's chunks are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.latency import HIGH_LAG_S, LOW_LAG_S, SETTLE_S, AdaptiveChunk, chunk_ms
from streamscribe.core.options import Latency

CHOICES = (300, 600, 1200)


@pytest.mark.parametrize(
    ("latency", "wanted_ms", "chosen_ms"),
    [
        (Latency.LOW, None, 300),
        (Latency.BALANCED, None, 600),
        (Latency.ADAPTIVE, None, 600),
        (Latency.THROUGHPUT, None, 1200),
        (Latency.LOW, 1000, 1200),
        (Latency.LOW, 60, 300),
        (Latency.LOW, 450, 300),
        (Latency.LOW, 900, 600),
        (Latency.LOW, 6000, 1200),
    ],
)
def test_the_chunk_that_a_session_wishes(latency: Latency, wanted_ms: int | None, chosen_ms: int) -> None:
    assert chunk_ms(CHOICES, latency, wanted_ms) == chosen_ms


@pytest.mark.parametrize(("choices", "chosen_ms"), [((480,), 480), ((300, 1200), 300), ((120, 720, 1440), 720)])
def test_balanced_is_what_is_nearest_to_600_ms(choices: tuple[int, ...], chosen_ms: int) -> None:
    assert chunk_ms(choices, Latency.BALANCED) == chosen_ms


def test_adaptive_takes_longer_chunks_while_answers_lag_and_goes_back() -> None:
    adaptive = AdaptiveChunk(CHOICES)
    told = [adaptive.chunk_ms(lag, now) for now, lag in ((0.0, 0.2), (1.0, 0.31), (2.0, 0.9), (6.0, 0.2), (7.0, 0.05))]
    assert told == [600, 1200, 1200, 1200, 600]
    assert adaptive.chunk_ms(0.0, 100.0) == 600


def test_adaptive_waits_for_what_the_last_change_brought() -> None:
    adaptive = AdaptiveChunk((300, 600, 900, 1200))
    assert [adaptive.chunk_ms(1.0, now) for now in (0.0, SETTLE_S - 0.1, SETTLE_S)] == [900, 900, 1200]


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10))))
def test_adaptive_is_never_shorter_than_balanced_and_changes_one_step_at_a_time(
    steps: list[tuple[float, float]],
) -> None:
    adaptive = AdaptiveChunk(CHOICES)
    now, last = 0.0, 600
    for passed, lag_s in steps:
        now += passed
        chosen = adaptive.chunk_ms(lag_s, now)
        adaptive.check_integrity()
        assert abs(CHOICES.index(chosen) - CHOICES.index(last)) <= 1
        if chosen != last:
            assert lag_s > HIGH_LAG_S if chosen > last else lag_s < LOW_LAG_S
        last = chosen
