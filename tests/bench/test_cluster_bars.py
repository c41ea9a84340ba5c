"""What the bars of a cluster can tell: where a peak lies, and that a run in which nothing was done holds nothing."""

import pytest

from streamscribe.bench.cluster_faults import missing
from streamscribe.bench.cluster_load import Crowd, climbed, held_against_peak, peak_of
from streamscribe.bench.report import report

NOTHING = ("lost_finals", "doubled_finals", "changed_finals", "lost_acked_audio_s", "session_errors", "broken_sessions")
SECONDS = 20.0


def crowd(per_s, finals_per_s, wait_s=1.0, seconds=SECONDS):
    one = Crowd(per_s, seconds)
    one.finals = round(finals_per_s * seconds)
    one.waits_s, one.memory, one.refusals_s = [wait_s] * one.finals, [1.0], [0.01]
    return one


def serves(finals_per_s):
    """A server that can say so many finals a second, of sessions of five."""

    async def rung(per_s):
        return crowd(per_s, min(5 * per_s, finals_per_s))

    return rung


@pytest.mark.parametrize("first_per_s", [0.5, 2.0, 8.0])
async def test_load_grows_until_goodput_does_not_and_no_further(first_per_s):
    rungs = await climbed(serves(17.0), first_per_s)
    peak = peak_of(rungs)
    assert peak.goodput_per_s >= 17.0 / 1.05
    assert rungs[-3] is peak
    assert [one.per_s for one in rungs] == sorted(one.per_s for one in rungs)


async def test_one_rung_of_bad_luck_is_not_taken_for_the_peak():
    luck = iter([10.0, 12.5, 11.0, 17.0, 17.2, 17.1])

    async def rung(per_s):
        return crowd(per_s, next(luck))

    rungs = await climbed(rung, 2.0)
    assert peak_of(rungs) is rungs[3]
    assert len(rungs) == 6


def test_an_overload_is_held_against_the_most_that_was_ever_served_and_against_the_waits_before_that():
    rungs = [crowd(2.0, 10.0), crowd(2.5, 12.0), crowd(3.1, 12.5, wait_s=1.4)]
    figures = held_against_peak(rungs, crowd(7.5, 11.0, wait_s=1.6, seconds=60.0))
    assert figures["goodput_over_peak"] == pytest.approx(11.0 / 12.5)
    assert figures["final_p99_over_peak"] == pytest.approx(1.6)
    missed = [bar.figure for bar in as_report("overload", figures).bars if not bar.holds]
    assert missed == ["overload_goodput_over_peak", "overload_final_p99_over_peak"]


def test_freezes_are_twenty_where_there_is_time_for_them_and_at_least_one():
    assert (missing(20, 50.0), missing(19, 50.0), missing(25, 50.0)) == (0, 1, 0)
    assert (missing(4, 5.9), missing(5, 5.9)) == (1, 0)
    assert (missing(0, 0.5), missing(1, 0.5)) == (1, 0)


def as_report(part, figures):
    return report("cluster", {}, {f"{part}_{name}": value for name, value in figures.items()})


NAN = float("nan")
"""A quantile of nobody."""


@pytest.mark.parametrize(
    ("part", "harmed", "unharmed"),
    [
        ("kill", {"kills": 3.0}, 0.0),
        ("kill", {"taken_over_sessions": 5.0}, 0.0),
        ("kill", {"next_text_p95_ms": 700.0}, NAN),
        ("kill_tiny", {"kills": 3.0}, 0.0),
        ("kill_tiny", {"taken_over_sessions": 5.0}, 0.0),
        ("roll", {"worker_ends": 2.0}, 0.0),
        ("roll", {"taken_over_sessions": 5.0}, 0.0),
        ("freeze", {"missing_freezes": 0.0}, 1.0),
        ("freeze", {"taken_over_sessions": 5.0}, 0.0),
        ("overload", {"refusal_p99_ms": 20.0}, NAN),
        ("proxy", {"resumes": 4.0}, 0.0),
        ("kafka_kill", {"kills": 3.0}, 0.0),
        ("kafka_kill", {"moved_sessions": 5.0}, 0.0),
        ("kafka_kill", {"next_text_p95_ms": 700.0}, NAN),
        ("kafka_roll", {"still_spoke": 1.0}, 0.0),
        ("kafka_roll", {"resumed_max_ms": 700.0}, NAN),
        ("kafka_freeze", {"missing_freezes": 0.0}, 1.0),
        ("kafka_freeze", {"fenced": 1.0}, 0.0),
        ("kafka_redis", {"frozen_newcomer_answered_ms": 200.0}, 300.0),
        ("kafka_redis", {"killed_newcomer_answered_ms": 20.0}, 300.0),
    ],
)
def test_where_nothing_was_harmed_nothing_is_shown_however_whole_all_is(part, harmed, unharmed):
    whole = dict.fromkeys(NOTHING, 0.0)
    assert as_report(part, whole | harmed).holds
    assert not as_report(part, whole | dict.fromkeys(harmed, unharmed)).holds
