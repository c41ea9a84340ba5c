"""Admission by load, with a server and its sessions simulated in virtual time."""

import heapq
import random
from collections.abc import Callable
from math import inf
from statistics import mean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.admission import LoadAdmission, Shed
from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.load import WINDOW_S, LoadGauge, StepLoad

CHUNK_S = 0.6
MAX_LAG_S = 0.5
BOUND = 0.9
RESERVE = 0.2
ANYBODY = 10**6


class Server:
    """One model whose step of n chunks takes `fixed_s` + n `each_s`; sessions bring a chunk every 600 ms."""

    def __init__(
        self, fixed_s: float, each_s: float, batch: int, bound: float = BOUND, newcomers: int | None = None
    ) -> None:
        self.fixed_s, self.each_s = fixed_s, each_s
        self.limit = batch
        self.capacity = CHUNK_S / (fixed_s / batch + each_s)
        self.now = 100.3
        self.gauge = LoadGauge(self.now)
        self.admission = LoadAdmission(self.gauge, bound, MAX_LAG_S, newcomers or ANYBODY, RESERVE)
        self.random = random.Random(5)
        self.live: set[int] = set()
        self.refused: list[Shed] = []
        self.yielding = 0
        self.lags_s: list[tuple[float, float]] = []
        self.most = 0
        self._queue = Batcher(BatchPolicy(max_batch_size=batch, wait_ms=5, max_waiting_s=inf, max_inflight=ANYBODY))
        self._running: tuple[Waiting, ...] = ()
        self._waiting: set[int] = set()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, event, arguments = heapq.heappop(self._events)
            event(*arguments)
        self.now = until
        self.gauge.check_integrity()

    def come(self, count: int, every_s: float, stay_s: float = 1e9, *, yields: bool = False) -> None:
        for number in range(count):
            self._at(self.now + number * every_s, self._come, stay_s, yields)

    def come_at_random(self, count: int, within_s: float, stay_s: float) -> None:
        for _ in range(count):
            came = self.now + self.random.uniform(0, within_s)
            self._at(came, self._come, self.random.expovariate(1 / stay_s))

    def all_leave(self) -> None:
        """What waits of them goes with them."""
        for session in tuple(self.live):
            self._leave(session)
        for number in self._waiting:
            self._queue.cancel(number)
        self._waiting.clear()

    def lag_p95_s(self, last_s: float) -> float:
        lags_s = sorted(lag_s for at, lag_s in self.lags_s if at > self.now - last_s)
        return lags_s[int(0.95 * len(lags_s))]

    def _at(self, when: float, event: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, event, arguments))

    def _come(self, stay_s: float, yields: bool = False) -> None:
        if shed := self.admission.admit(1, self.now, yields=yields):
            self.refused.append(shed)
            return
        self.yielding += yields
        self._count += 1
        session = self._count
        self.live.add(session)
        self.most = max(self.most, len(self.live))
        self._at(self.now + self.random.random() * CHUNK_S, self._speak, session)
        self._at(self.now + stay_s, self._leave, session)

    def _leave(self, session: int) -> None:
        self.live.remove(session)
        self.admission.release(1, self.now)

    def _speak(self, session: int) -> None:
        if session in self.live:
            self._count += 1
            self._queue.add(Waiting(self._count, Priority.NORMAL, CHUNK_S, self.now, None, session))
            self._waiting.add(self._count)
            self._at(self.now + CHUNK_S, self._speak, session)
            self._step()

    def _step(self) -> None:
        if self._running:
            return
        self._running = self._queue.take(self.now, len(self.live))
        self._waiting.difference_update(item.id for item in self._running)
        if self._running:
            took_s = self.fixed_s + self.each_s * len(self._running)
            self._at(self.now + took_s, self._stepped, took_s)
        elif (due := self._queue.next_timer(len(self.live))) is not None:
            self._at(max(due, self.now) + 1e-6, self._step)

    def _stepped(self, took_s: float) -> None:
        batch, self._running = self._running, ()
        self._queue.finish(batch)
        lags_s = [self.now - item.arrived for item in batch]
        self.lags_s += [(self.now, lag_s) for lag_s in lags_s]
        work = CHUNK_S * len(batch)
        asked = self._queue.take_asked()[1]
        self.gauge.step("model", StepLoad(took_s, len(batch), work, asked, self.limit), self.now)
        self.gauge.lagged("model", max(lags_s), len(batch), self.now)
        self._step()


SERVERS = [
    pytest.param((0.020, 0.010, 8), id="some of a step is fixed"),
    pytest.param((0.020, 0.001, 64), id="most of a step is fixed"),
    pytest.param((0.100, 0.000, 8), id="all of a step is fixed"),
    pytest.param((0.000, 0.030, 4), id="batches gain nothing"),
]


@pytest.mark.parametrize("server", SERVERS)
def test_a_ramp_beyond_the_capacity_settles_near_it_and_those_who_were_let_in_are_in_time(server):
    server = Server(*server)
    server.come(int(2.5 * server.capacity), every_s=40 / server.capacity / 2.5)
    server.run(60)
    assert 0.75 * server.capacity <= len(server.live) <= server.capacity
    assert server.lag_p95_s(20) <= MAX_LAG_S
    assert set(server.refused) == {Shed.UTILISATION}


@pytest.mark.parametrize("server", SERVERS)
def test_below_the_capacity_nobody_is_refused(server):
    server = Server(*server)
    server.come(int(0.6 * server.capacity), every_s=0.5)
    server.run(0.35 * server.capacity + 30)
    assert len(server.live) == int(0.6 * server.capacity)


@pytest.mark.parametrize(
    "server", [SERVERS[0], SERVERS[1], SERVERS[3]]
)  # of equal steps nobody knows a full one's cost
def test_a_reserve_is_left_to_tenants_with_priority_and_all_are_in_time(server):
    server = Server(*server)
    server.come(int(2.5 * server.capacity), every_s=40 / server.capacity / 2.5, yields=True)
    server.run(60)
    others = len(server.live)
    assert 0.55 * server.capacity <= others <= (1 - RESERVE) * server.capacity
    server.come(int(0.5 * server.capacity), every_s=40 / server.capacity, yields=True)
    server.come(int(0.5 * server.capacity), every_s=40 / server.capacity)
    server.run(60)
    assert server.yielding == others
    assert 0.75 * server.capacity <= len(server.live) <= server.capacity
    assert server.lag_p95_s(20) <= MAX_LAG_S


def test_whoever_comes_at_once_to_a_server_that_knows_its_load_is_let_in_up_to_the_capacity():
    server = Server(0.020, 0.010, 8)
    server.come(15, every_s=0.3)
    server.run(20)
    server.come(200, every_s=0.0)
    server.run(1)
    assert 0.75 * server.capacity <= len(server.live) <= server.capacity
    server.run(20)
    assert server.lag_p95_s(15) <= MAX_LAG_S


def test_a_burst_into_a_cold_server_is_refused_as_soon_as_the_first_chunks_are_through():
    server = Server(0.020, 0.010, 8)
    server.come(400, every_s=0.01)
    server.run(10)
    assert len(server.live) <= 1.1 * server.capacity
    assert len(server.refused) >= 300


@pytest.mark.parametrize("before_s", [0, 30], ids=["cold", "idle for long"])
def test_a_rush_is_let_in_as_fast_as_it_is_measured_and_whoever_was_let_in_is_in_time(before_s):
    server = Server(0.020, 0.010, 8, newcomers=8)
    server.come(10, every_s=0.1, stay_s=5)
    server.run(before_s)
    server.lags_s.clear()
    server.come(3000, every_s=0.01)
    server.run(1)
    assert len(server.live) <= 18
    assert Shed.RUSH in server.refused
    server.run(29)
    assert 0.75 * server.capacity <= len(server.live) <= server.capacity
    assert server.lag_p95_s(30) <= MAX_LAG_S


def test_those_who_leave_and_come_again_are_no_rush():
    server = Server(0.020, 0.010, 8, newcomers=1)
    for _ in range(20):
        server.come(1, every_s=0, stay_s=1)
        server.run(3)
    assert not server.refused


def test_when_sessions_leave_others_take_their_places():
    server = Server(0.020, 0.010, 8)
    server.come(100, every_s=0.1, stay_s=25)
    server.run(20)
    refused = len(server.refused)
    assert refused > 30
    server.run(20)
    assert not server.live
    server.come(30, every_s=0.2)
    server.run(10)
    assert len(server.live) == 30
    assert len(server.refused) == refused


def test_under_lasting_demand_the_number_of_sessions_does_not_swing_wildly():
    server = Server(0.020, 0.010, 8)
    server.come_at_random(2000, within_s=200, stay_s=20)
    server.run(40)
    seen = []
    for _ in range(150):
        server.run(1)
        seen.append(len(server.live))
    assert min(seen) >= 0.55 * server.capacity
    assert max(seen) <= 1.05 * server.capacity
    assert server.lag_p95_s(150) <= MAX_LAG_S


def test_late_chunks_let_nobody_in_until_they_are_in_time_again():
    gauge = LoadGauge(0.0)
    admission = LoadAdmission(gauge, BOUND, MAX_LAG_S, ANYBODY)
    assert admission.admit(1, 1.0) is None
    gauge.lagged("model", 2.0, 10, 5.0)
    assert admission.admit(1, 5.0) is Shed.LAG
    assert admission.admit(1, 5.0 + WINDOW_S - 1) is Shed.LAG
    assert admission.admit(1, 6.0 + WINDOW_S) is None


def test_a_few_late_chunks_of_many_are_no_reason():
    gauge = LoadGauge(0.0)
    admission = LoadAdmission(gauge, BOUND, MAX_LAG_S, ANYBODY)
    assert admission.admit(1, 1.0) is None
    gauge.lagged("model", 2.0, 4, 5.0)
    gauge.lagged("model", 0.1, 96, 5.0)
    assert gauge.lag_p95_s("model", 5.0) == pytest.approx(0.1, rel=0.25)
    assert admission.admit(1, 5.0) is None


def test_whoever_comes_first_is_let_in_whatever_was_measured():
    gauge = LoadGauge(0.0)
    admission = LoadAdmission(gauge, BOUND, MAX_LAG_S, ANYBODY)
    gauge.step("model", StepLoad(9.0, 1, 1.0, 1.0, 1), 5.0)
    gauge.lagged("model", 9.0, 1, 5.0)
    assert admission.admit(1, 5.0) is None
    assert admission.admit(1, 5.0) is Shed.LAG
    admission.release(1, 6.0)
    assert admission.admit(2, 6.0) is None
    assert gauge.voices == 2


def test_files_may_keep_a_model_busy_and_live_sessions_are_let_in():
    gauge = LoadGauge(0.0)
    admission = LoadAdmission(gauge, BOUND, MAX_LAG_S, ANYBODY)
    assert admission.admit(1, 0.0) is None
    for second in range(1, 20):
        gauge.step("model", StepLoad(0.9, 8, 80.0, 0.0, 8), float(second))
        gauge.step("model", StepLoad(0.1, 1, 1.0, 1.0, 8), float(second))
    assert admission.admit(1, 20.0) is None


def test_a_voice_that_sends_faster_than_it_speaks_counts_as_one_that_speaks():
    gauge = LoadGauge(0.0)
    gauge.add_voices(1, 0.0)
    for second in range(10):
        gauge.step("model", StepLoad(0.5, 1, 10.0, 10.0, 1), float(second))
    assert gauge.utilisation("model", 10.0) == pytest.approx(0.05 * 1.25)


def test_the_hysteresis_holds_between_the_two_bounds():
    gauge = LoadGauge(0.0)
    admission = LoadAdmission(gauge, 0.5, MAX_LAG_S, ANYBODY)
    assert admission.admit(10, 0.0) is None
    for second in range(1, 12):
        gauge.step("model", StepLoad(0.47, 10, 10.0, 10.0, 10), float(second))
    assert gauge.predicted("model", 1, 12.0) == pytest.approx(0.47, abs=0.05)
    admitted = 0
    while admission.admit(1, 12.0) is None:
        admitted += 1
    assert admitted in (0, 1)
    admission.release(admitted, 12.0)
    assert admission.admit(1, 12.0) is Shed.UTILISATION
    admission.release(2, 12.0)
    assert admission.admit(1, 12.0) is None
    gauge.check_integrity()


@given(
    fixed_s=st.floats(0, 0.5),
    each_s=st.floats(0.001, 0.1),
    sizes=st.lists(st.integers(1, 16), min_size=2, max_size=30).filter(
        lambda sizes: pstdev(sizes) > 0.05 * mean(sizes)
    ),
)
def test_the_utilisation_is_that_of_full_steps_whatever_the_sizes_of_those_seen(fixed_s, each_s, sizes):
    gauge = LoadGauge(0.0)
    gauge.add_voices(1000, 0.0)
    for number, size in enumerate(sizes):
        step = StepLoad(fixed_s + each_s * size, size, 0.6 * size, 0.6 * size, 16)
        gauge.step("model", step, 0.1 + number / len(sizes))
    chunks_per_s = sum(sizes) / 2
    assert gauge.utilisation("model", 2.0) == pytest.approx(chunks_per_s * (fixed_s / 16 + each_s), rel=1e-6)


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from(["come", "go", "step", "late", "ask"])), max_size=60))
def test_any_history_leaves_figures_that_make_sense(events):
    now, gauge = 0.0, LoadGauge(0.0)
    admission = LoadAdmission(gauge, BOUND, MAX_LAG_S, ANYBODY)
    for pause_s, event in events:
        now += pause_s
        match event:
            case "come":
                before = gauge.voices
                refused = admission.admit(2, now)
                assert gauge.voices == before + (0 if refused else 2)
                assert before or not refused
            case "go" if gauge.voices:
                admission.release(2, now)
            case "step":
                gauge.step("model", StepLoad(0.3, 2, 3.0, 1.5, 4), now - 0.5)
            case "late":
                gauge.lagged("model", pause_s, 3, now - 0.5)
        assert 0 <= gauge.utilisation("model", now) < 1
        assert 0 <= gauge.lag_p95_s("model", now) <= 3 * 1.25
        gauge.check_integrity()


@pytest.mark.parametrize("server", SERVERS)
def test_a_crowd_that_came_at_once_is_known_by_what_it_asks_and_not_by_what_is_done(server):
    server = Server(*server)
    for _ in range(int(1.4 * server.capacity)):
        server.come(1, every_s=0)
    server.run(8)
    assert len(server.live) > 1.3 * server.capacity
    assert server.gauge.utilisation("model", server.now) > 1.1


@pytest.mark.parametrize(
    "server", [SERVERS[0], SERVERS[1], SERVERS[3]]
)  # of equal steps nobody knows a full one's cost
def test_a_crowd_that_leaves_while_it_waits_is_known_by_what_it_asked_for_when_it_comes_again(server):
    server = Server(*server)
    for _ in range(int(2.5 * server.capacity)):
        server.come(1, every_s=0)
    server.run(WINDOW_S + 5)
    before = server.gauge.utilisation("model", server.now)
    server.all_leave()
    server.run(3)
    assert server.gauge.utilisation("model", server.now) == pytest.approx(0.7 * before, rel=0.15)
    server.run(WINDOW_S)
    assert server.gauge.utilisation("model", server.now) == 0
