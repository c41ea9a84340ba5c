"""What the bars of a cluster can tell: where a peak lies, and that a run in which nothing was done holds nothing."""

import tomllib
from importlib.resources import files

import pytest

import streamscribe.bench
from streamscribe.bench.cluster_faults import missing
from streamscribe.bench.cluster_load import Crowd, as_figures, climbed, held_against_peak, peak_of
from streamscribe.bench.kinds import KAFKA_PARTS, LOCAL_PARTS
from streamscribe.bench.report import report

BARS = tomllib.loads(files(streamscribe.bench).joinpath("bars.toml").read_text())["cluster"]
SECONDS = 20.0
NAN = float("nan")
"""A quantile of nobody."""


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
    named = {f"overload_{name}": value for name, value in figures.items()}
    missed = [bar.figure for bar in report("cluster", {}, named, ["overload"]).bars if not bar.holds]
    assert missed == ["overload_goodput_over_peak", "overload_final_p99_over_peak"]


def test_every_rung_is_told_so_that_one_sees_how_the_peak_was_found():
    rungs = [crowd(2.0, 10.0), crowd(2.5, 12.0, wait_s=1.4)]
    rungs[1].refused = 3
    figures = as_figures(rungs)
    assert figures["rungs"] == 2
    second = [figures[f"rung_2_{name}"] for name in ("sessions_per_s", "goodput_per_s", "final_p99_ms", "refused")]
    assert second == [2.5, 12.0, 1400.0, 3.0]
    assert figures["rung_1_goodput_per_s"] == 10.0


def test_harms_are_as_many_as_there_is_time_for_and_at_least_one():
    assert (missing(11, 11.0), missing(1, 11.9), missing(25, 11.0)) == (0, 10, 0)
    assert (missing(0, 0.5), missing(1, 0.5)) == (1, 0)


def test_every_part_that_can_be_run_has_bars_of_its_own():
    assert BARS.keys() == {*LOCAL_PARTS, *(f"kafka_{part}" for part in KAFKA_PARTS)}
    for part, bars in BARS.items():
        assert all(figure.startswith(f"{part}_") for figure in bars)


@pytest.mark.parametrize("part", BARS)
def test_a_bar_whose_figure_is_absent_does_not_hold(part):
    figures = {figure: rule["bar"] for figure, rule in BARS[part].items()}
    assert report("cluster", {}, figures, [part]).holds
    for figure in figures:
        rest = {name: value for name, value in figures.items() if name != figure}
        assert [bar.figure for bar in report("cluster", {}, rest, [part]).bars if not bar.holds] == [figure]


SPOKEN = ("kill", "kill_tiny", "roll", "freeze", "proxy", *(f"kafka_{part}" for part in KAFKA_PARTS))


@pytest.mark.parametrize(
    ("figure", "unharmed"),
    [
        *((f"{part}_finals", 0) for part in SPOKEN),
        *((f"{part}_missing_kills", 1) for part in ("kill", "kill_tiny", "kafka_kill")),
        *((f"{part}_taken_over_sessions", 0) for part in ("kill", "kill_tiny", "roll", "freeze")),
        *((f"{part}_missing_freezes", 1) for part in ("freeze", "kafka_freeze")),
        *((f"{part}_next_text_p95_ms", NAN) for part in ("kill", "kafka_kill")),
        ("roll_worker_ends", 0),
        ("overload_refusal_p99_ms", NAN),
        *((f"proxy_{fault}_harmed", 0) for fault in ("reset", "closed", "half_open", "corrupt_up", "corrupt_down")),
        ("proxy_resumes", 0),
        ("kafka_kill_moved_sessions", 0),
        ("kafka_roll_still_spoke", 0),
        ("kafka_roll_resumed_max_ms", NAN),
        ("kafka_freeze_fenced", 0),
        *((f"kafka_redis_{how}_newcomer_answered_ms", 300) for how in ("frozen", "killed")),
        *((f"kafka_redis_{how}_longest_wait_ms", wait) for how in ("frozen", "killed") for wait in (NAN, 30_000)),
    ],
)
def test_where_nothing_was_harmed_nothing_is_shown_however_whole_all_is(figure, unharmed):
    part = max((part for part in BARS if figure.startswith(f"{part}_")), key=len)
    whole = {name: rule["bar"] for name, rule in BARS[part].items()}
    assert not report("cluster", {}, whole | {figure: unharmed}, [part]).holds
