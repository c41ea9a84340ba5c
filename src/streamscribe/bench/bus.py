"""What a bus between processes adds to the one in memory: the same records through each, in turn, in one run.

So many streams publish chunks in real time, evenly spread; the worker's end settles each at once and answers it with an
event. A trip is the time from `publish` until the answer is back: a record down and an event up, with both ends' codec
and, between processes, both kernels' and both loops' delays. All ways are open at once and take turns, round by round;
added is a way's quantile less memory's in the same round, and the median of the rounds is told; added processor time is
this process', of a record and its answer. At last each way is given records as fast as it takes them. Where a completed
`publish` means more than this process' memory, streams do not wait for each other's.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from itertools import cycle, islice
from statistics import median
from time import perf_counter, process_time

import uvloop

from streamscribe.bench.bus_echo import echo
from streamscribe.bench.kafka_cluster import foreign
from streamscribe.bench.load import CHUNK_BYTES, CHUNK_S, quantile_ms
from streamscribe.bench.report import Report, report
from streamscribe.bootstrap.cluster.services import broker_command
from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.link import Link
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import BusUnavailable
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioChunk, Progress, SessionAbandoned, SessionOpened, WorkerEvent
from streamscribe.ports import GatewayBus

ROUNDS = 5
FLOOD_S = 1.0
BACKLOG_S, REPLAY_S = 5.0, 60.0
MIN_SLEEP_S = 0.0005
SPARE_S = 120.0
"""Beyond the time that a run should take: what is not done then will not be."""
REFERENCE = "memory"

Bus = Callable[[], AbstractAsyncContextManager[GatewayBus]]


@asynccontextmanager
async def _memory() -> AsyncIterator[GatewayBus]:
    bus = MemoryBus(BACKLOG_S)
    echo(bus)
    yield bus


@asynccontextmanager
async def _local() -> AsyncIterator[GatewayBus]:
    """A gateway's end whose one worker is another process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "streamscribe.bench.bus_echo", str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as worker:  # noqa: ASYNC220 - nothing is measured yet
        try:
            theirs.close()
            link = await Link.open(ours)
            bus = LocalGatewayBus(BACKLOG_S, REPLAY_S, lambda opened: 1)
            bus.join(1, link)
            yield bus
            link.close()
            await link.closed
        finally:
            worker.kill()  # else leaving this block waits for it


WAYS: dict[str, Bus] = {REFERENCE: _memory, "local": _local}


def run(*, streams: int, seconds: float, kafka: bool = False, brokers: str = "") -> Report:
    """Measures each way for `seconds` in all: Kafka's too over `brokers`, or with `kafka` over a small one of its own.

    Raises SettingsError where that one is not installed, and BusUnavailable where no broker answers, or one no more.
    """
    ways = dict(WAYS)
    with ExitStack() as stack:
        if kafka and not brokers:
            brokers = stack.enter_context(foreign(broker_command)).address
        if brokers:
            from streamscribe.bench.bus_kafka import over_kafka

            ways["kafka"] = partial(over_kafka, brokers, BACKLOG_S)
        figures = uvloop.run(_in_time(ways, streams, seconds))
    settings = {"streams": streams, "seconds": seconds, "rounds": ROUNDS, "chunk_ms": 1000 * CHUNK_S}
    return report("bus", settings, figures, tuple(ways))


async def _in_time(buses: dict[str, Bus], count: int, seconds: float) -> dict[str, float]:
    try:
        async with asyncio.timeout(len(buses) * (seconds + FLOOD_S) + SPARE_S):
            return await _measure(buses, count, seconds)
    except TimeoutError:
        raise BusUnavailable("a bus did not answer all that it was given") from None


async def _measure(buses: dict[str, Bus], count: int, seconds: float) -> dict[str, float]:
    trips: dict[str, list[list[float]]] = {name: [] for name in buses}
    costs_s: dict[str, float] = {}
    floods: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        ways = {name: _Way(await stack.enter_async_context(bus()), count) for name, bus in buses.items()}
        for way in ways.values():
            await way.speak(CHUNK_S)  # which also waits for the other process to be there
            way.take()
        for _ in range(ROUNDS):
            for name, way in ways.items():
                began_s = process_time()
                await way.speak(seconds / ROUNDS)
                costs_s[name] = costs_s.get(name, 0.0) + process_time() - began_s
                trips[name].append(way.take())
        lags_s = sorted(lag for way in ways.values() for lag in way.lags_s)
        for name, way in ways.items():
            floods[name] = await way.flood(FLOOD_S)
            await way.end()
    figures = {"streams": float(count), "load_lag_p99_ms": quantile_ms(lags_s, 0.99)}
    for name, rounds in trips.items():
        figures[f"{name}_records"] = float(records := sum(map(len, rounds)))
        for quantile in (50, 99):
            own = [quantile_ms(one, quantile / 100) for one in rounds]
            figures[f"{name}_trip_p{quantile}_ms"] = median(own)
            if name != REFERENCE:
                reference = [quantile_ms(one, quantile / 100) for one in trips[REFERENCE]]
                added = median(mine - other for mine, other in zip(own, reference, strict=True))
                figures[f"{name}_added_p{quantile}_ms"] = added
        if name != REFERENCE:
            figures[f"{name}_added_cpu_us"] = 1e6 * (costs_s[name] - costs_s[REFERENCE]) / records
        figures[f"{name}_records_per_s"] = floods[name]
    return figures


class _Way:
    """A bus with its streams: speaks into it, and notes when each answer is back."""

    def __init__(self, bus: GatewayBus, count: int) -> None:
        self.lags_s: list[float] = []
        self._bus = bus
        self._names = [SessionId(f"stream-{number}") for number in range(count)]
        self._indices = dict.fromkeys(self._names, 0)
        self._sent_at: dict[tuple[SessionId, int], float] = {}
        self._trips_s: list[float] = []
        self._publishing: dict[SessionId, asyncio.Future[None]] = {}
        self._all_back = asyncio.Event()
        self._audio = os.urandom(CHUNK_BYTES)
        bus.attach_gateway(self._take)

    async def speak(self, seconds: float) -> None:
        """Each stream a chunk every 100 ms; returns when all answers are back."""
        due = perf_counter()
        chunks = round(seconds / CHUNK_S) * len(self._names)
        for name in islice(cycle(self._names), chunks):
            due += CHUNK_S / len(self._names)
            if (wait_s := due - perf_counter()) > MIN_SLEEP_S:
                await asyncio.sleep(wait_s)
            self.lags_s.append(max(0.0, perf_counter() - due))
            await self._give(name)
        await self._back()

    async def flood(self, seconds: float) -> float:
        """Records a second that were answered, given as fast as the bus takes them."""
        began = perf_counter()
        count = 0
        while perf_counter() - began < seconds:
            for name in self._names:
                await self._give(name)
                count += 1
            await asyncio.sleep(0)
        await self._back()
        return count / (perf_counter() - began)

    async def end(self) -> None:
        """Nobody waits for the streams any more."""
        for name in self._names:
            await self._bus.publish(SessionAbandoned(name, self._indices[name] + 1))

    def take(self) -> list[float]:
        """The trips since the last time, in seconds, in growing order."""
        taken, self._trips_s = self._trips_s, []
        return sorted(taken)

    async def _give(self, name: SessionId) -> None:
        """A stream's next chunk. Its earlier one is in the log by then, as a session publishes one at a time."""
        if earlier := self._publishing.pop(name, None):
            await earlier
        index = self._indices[name]
        if index == 0:
            opened = SessionOpened(name, 0, TenantId("bench"), TraceId(name), SessionOptions())
            await self._bus.publish(opened)
        index = self._indices[name] = index + 1
        self._sent_at[name, index] = perf_counter()
        publishing = self._bus.publish(AudioChunk(name, index, index, self._audio))
        if self._bus.durability == "process":
            await publishing
        else:
            self._publishing[name] = asyncio.ensure_future(publishing)

    async def _back(self) -> None:
        while self._sent_at:
            self._all_back.clear()
            await self._all_back.wait()

    def _take(self, event: WorkerEvent) -> None:
        if isinstance(event, Progress) and event.processed_ms:
            self._trips_s.append(perf_counter() - self._sent_at.pop((event.session_id, event.processed_ms)))
            if not self._sent_at:
                self._all_back.set()
