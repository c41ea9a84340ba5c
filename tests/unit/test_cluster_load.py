"""What a gateway knows of workers in other processes, and whom it lets in by that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.admission import LoadAdmission, Shed
from streamscribe.core.cluster_load import ClusterLoad, GatewayVoices, WorkerGauge, WorkerLoad
from streamscribe.core.ids import SessionId
from streamscribe.core.load import LoadGauge, ModelLoad, StepLoad

HERE, THERE = 0, 1
NOW = 100.0


def told(partitions: set[int], *models: ModelLoad, **voices: tuple[int, int]) -> WorkerLoad:
    by_gateway = {int(name.removeprefix("g")): GatewayVoices(*counts) for name, counts in voices.items()}
    return WorkerLoad(frozenset(partitions), by_gateway, models)


def books(**loads: WorkerLoad) -> ClusterLoad:
    made = ClusterLoad(HERE)
    made.heard(loads, NOW)
    return made


def door(made: ClusterLoad, worker: str, newcomers: int = 100) -> LoadAdmission:
    return LoadAdmission(WorkerGauge(made, worker), 0.9, 1.0, newcomers)


def test_own_voices_are_counted_by_the_own_books_and_the_others_as_told() -> None:
    made = books(a=told({0, 1}, g0=(7, 0), g1=(5, 2)), b=told({2}))
    made.seat(SessionId("x"), 0, 2, NOW)
    made.seat(SessionId("y"), 1, 1, NOW)
    made.seat(SessionId("z"), 2, 1, NOW)
    assert (made.voices("a"), made.voices("b")) == (2 + 1 + 5, 1)
    assert made.newcomers("a", NOW) == 3 + 2
    assert made.newcomers("a", NOW + 3) == 2
    made.forget(SessionId("x"), NOW + 3)
    made.forget(SessionId("x"), NOW + 3)
    assert made.voices("a") == 1 + 5
    made.check_integrity()


def test_voices_move_with_their_partition_and_who_tells_nothing_any_more_is_forgotten() -> None:
    made = books(a=told({0}), b=told({1}))
    made.seat(SessionId("x"), 0, 1, NOW)
    made.heard({"b": told({0, 1})}, NOW)
    assert (made.owner(0), made.voices("b"), made.voices("a")) == ("b", 1, 0)
    assert made.load("a") is None
    made.heard({}, NOW)
    assert made.owner(0) is None
    assert not list(made.workers)


def test_a_partition_is_without_an_owner_for_too_long_only_while_workers_tell_and_each_by_its_own_time() -> None:
    made = books(a=told({0}))
    made.heard({"a": told({0, 1})}, NOW + 5)
    made.heard({"b": told({0})}, NOW + 10)
    assert [made.unowned_too_long(one, NOW + 14.9) for one in (0, 1, 2)] == [False, False, True]
    assert [made.unowned_too_long(one, NOW + 15) for one in (0, 1, 2)] == [False, True, True]
    assert not made.all_unowned_too_long(NOW + 99)
    made.heard({}, NOW + 16)
    made.heard({"c": told(set())}, NOW + 60)
    assert not made.unowned_too_long(1, NOW + 69.9)
    assert not made.all_unowned_too_long(NOW + 69.9)
    assert made.unowned_too_long(0, NOW + 70)
    assert made.all_unowned_too_long(NOW + 70)
    made.heard({"c": told({3})}, NOW + 71)
    assert not made.all_unowned_too_long(NOW + 71)
    made.heard({"c": told(set())}, NOW + 72)
    assert not made.all_unowned_too_long(NOW + 80.9)
    assert made.all_unowned_too_long(NOW + 81)


def test_a_worker_that_would_be_too_busy_or_is_late_lets_nobody_in() -> None:
    busy = ModelLoad("vad", utilisation=0.8, heard=8, lag_p95_s=0.01)
    late = ModelLoad("vad", utilisation=0.1, heard=8, lag_p95_s=3.0)
    made = books(a=told({0}, busy, g1=(8, 0)), b=told({1}, busy, g1=(10, 0)), c=told({2}, late, g1=(8, 0)))
    said = [door(made, worker).admit(1, NOW) for worker in ("a", "b", "c")]
    assert said == [None, Shed.UTILISATION, Shed.LAG]


def test_whoever_was_let_in_here_counts_before_the_worker_has_heard_of_him() -> None:
    made = books(a=told({0}, ModelLoad("vad", utilisation=0.45, heard=5, lag_p95_s=0.01), g1=(5, 0)))
    admission, let_in = door(made, "a"), 0
    while admission.admit(1, NOW) is None:
        made.seat(SessionId(f"s{let_in}"), 0, 1, NOW)
        let_in += 1
    assert let_in == 7  # 5 voices and the next take 0.45: 12 and the next would take 0.45 * 13 / 6
    assert door(made, "a", newcomers=1).admit(1, NOW) is Shed.RUSH


def test_workers_are_compared_by_how_busy_they_would_be_then_by_voices() -> None:
    made = books(
        busy=told({0}, ModelLoad("vad", 0.5, 4, 0.0), g1=(4, 0)),
        calm=told({1}, ModelLoad("vad", 0.2, 9, 0.0), g1=(9, 0)),
        idle=told({2}),
    )
    assert sorted(made.workers, key=lambda worker: made.pressure(worker, 1)) == ["idle", "calm", "busy"]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 64), st.floats(0.001, 0.2)), max_size=30), st.integers(1, 9)
)
def test_what_a_worker_measured_predicts_as_its_own_gauge_does(steps: list[tuple[int, int, float]], more: int) -> None:
    gauge = LoadGauge(NOW)
    gauge.add_voices(5, NOW)
    for number, (requests, limit, busy_s) in enumerate(steps):
        load = StepLoad(busy_s, requests, work=requests * 0.6, live_asked=requests * 0.6, limit=max(limit, requests))
        gauge.step("vad", load, NOW + number / 5)
    now = NOW + 7
    assert gauge.measured("vad", now).predicted(gauge.voices, more) == pytest.approx(gauge.predicted("vad", more, now))
