"""A gateway of a cluster: sessions here, models elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from streamscribe.audio.decode import DecoderPool
from streamscribe.bootstrap.cluster.board import BoardReader, open_board
from streamscribe.bootstrap.cluster.door import BUS, STORE, WORKERS, ClusterDoor, WorkersDoor
from streamscribe.bootstrap.cluster.health import Health, fail_with
from streamscribe.bootstrap.cluster.number import GatewayNumber
from streamscribe.bootstrap.desk import WorkersDesk
from streamscribe.bootstrap.kafka import kafka_told_too
from streamscribe.bootstrap.platform import decoding
from streamscribe.bootstrap.sessions import PATIENCE_S, need_cluster, open_shared_sessions, patient_sessions
from streamscribe.bootstrap.worker_side import both
from streamscribe.core.errors import BusUnavailable
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.observe.cluster_metrics import ClusterMetrics, Read
from streamscribe.observe.load import LoadControl
from streamscribe.observe.logs import get_logger
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import ModelSettings, Settings

if TYPE_CHECKING:
    from streamscribe.bus.kafka.gateway import KafkaGatewayBus
    from streamscribe.store.redis_sessions import RedisSessions

_log = get_logger(__name__)


class NoModels:
    """`bootstrap.reload.Reloads` of a process that has none; its keys are read again by themselves."""

    async def to(self, settings: ModelSettings) -> None:
        """Says where the models are."""
        _log.warning("a gateway has no models to replace: send SIGHUP to each worker")


@dataclass(frozen=True, slots=True)
class ClusterGateway:
    """`bootstrap.parts.Parts` without models: nothing is warmed or replaced here, and what is kept the workers keep."""

    hub: Hub
    decoders: DecoderPool
    exposition: Metrics
    health: Health
    workers: WorkersDoor
    desk: WorkersDesk
    reloads: NoModels

    @property
    def warmup_s(self) -> Mapping[str, float]:
        """Nothing is warmed here."""
        return {}

    def waiting_for(self) -> list[str]:
        """What does not answer of the bus and the store, and `workers` where none takes sessions."""
        return [*self.health.lacking(), *([WORKERS] if self.workers.nobody_serves else [])]

    async def wait_ready(self) -> None:
        """At once: bus and store have answered before it was given, and workers may come later."""


@asynccontextmanager
async def cluster_gateway(settings: Settings, name: str | None = None) -> AsyncIterator[ClusterGateway]:
    """A running gateway, of a `name` that no other has. Raises SettingsError for what is not set, BusUnavailable and
    StoreUnavailable at the start.

    Ends with BusUnavailable when results cannot be read any more, or another gateway reads them too: only a new start
    helps.
    """
    need_cluster(settings)
    from streamscribe.bus.kafka.gateway import KafkaGatewayBus
    from streamscribe.bus.kafka.names import new_name

    name = name or new_name()
    metrics, limits = Metrics(), settings.limits
    async with AsyncExitStack() as stack:
        store = open_shared_sessions(settings.store)
        stack.push_async_callback(store.close)
        claim = GatewayNumber(store, name, _keep_every_s(settings))
        stack.push_async_callback(claim.free)
        async with kafka_told_too(settings), patient_sessions(settings.store) as patient:
            number = await claim.take(settings.kafka, patient)
        bus = KafkaGatewayBus(settings.kafka, limits.max_backlog_s, limits.max_message_bytes, number)
        await bus.start()
        stack.push_async_callback(bus.close)
        workers = _workers_door(settings, number, metrics)
        reader = await stack.enter_async_context(_board_reader(settings, workers))
        health = Health({BUS: bus.check, STORE: store.check})
        load = LoadControl(limits, metrics.session_shed)
        without_store = settings.store.admit_when_away
        door = ClusterDoor(load, workers, health, metrics.session_shed, without_store=without_store)
        seats = SeatKeeper(store, name, _keep_every_s(settings), limits.max_new_sessions_per_min)
        mover = _mover(settings, seats, store, bus, name)
        ClusterMetrics(metrics.registry, _figures(workers, bus, store, mover))
        hub = Hub(bus, limits, metrics, door, mover, workers.new_id)
        decoders = await stack.enter_async_context(decoding(settings))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        probe = probe_event_loop(both(metrics.loop_lagged, load.loop_lagged))
        works = (seats.run(), mover.run(), health.watch(), reader.run(), probe)
        ends = (fail_with(bus.failed), _fail_without(number, claim, seats))
        running = [tasks.create_task(work) for work in (*works, *ends)]
        try:
            yield ClusterGateway(hub, decoders, metrics, health, workers, WorkersDesk(reader.ask_all), NoModels())
        finally:
            await hub.close()
            await seats.close()
            for task in running:
                task.cancel()


def _keep_every_s(settings: Settings) -> float:
    return settings.store.seat_ttl_s / 3


def _workers_door(settings: Settings, number: int, metrics: Metrics) -> WorkersDoor:
    from streamscribe.bus.kafka.partitioner import partition_of

    whose = partial(partition_of, partitions=settings.kafka.audio_partitions)
    return WorkersDoor(settings.limits, number, whose, metrics.session_shed)


@asynccontextmanager
async def _board_reader(settings: Settings, workers: WorkersDoor) -> AsyncIterator[BoardReader]:
    """It has read once, with a person's patience."""
    async with open_board(settings.store) as board:
        async with open_board(settings.store, PATIENCE_S) as patient:
            await BoardReader(patient, workers).read()
        yield BoardReader(board, workers)


def _mover(settings: Settings, seats: SeatKeeper, store: "RedisSessions", bus: "KafkaGatewayBus", name: str) -> Mover:
    behind_s = settings.limits.resume_window_s + settings.limits.slow_reader_timeout_s
    every_s = min(_keep_every_s(settings), max(behind_s / 4, 0.5))
    return Mover(seats, store, bus, name, every_s=every_s, behind_s=behind_s)


async def _fail_without(number: int, claim: GatewayNumber, seats: SeatKeeper) -> NoReturn:
    """Raises BusUnavailable when another gateway has the number."""
    holder = await claim.lost()
    await seats.keep()  # where the store has lost all, it has no tickets either: they are handed in at the end
    raise BusUnavailable(f"the gateway {holder} has the number {number} by now")


def _figures(workers: WorkersDoor, bus: "KafkaGatewayBus", store: "RedisSessions", mover: Mover) -> dict[str, Read]:
    return {
        "streamscribe_known_workers": lambda: float(workers.count),
        "streamscribe_fenced_events": lambda: float(bus.fenced),
        "streamscribe_dead_letters": lambda: float(bus.dead_letters),
        "streamscribe_store_failures": lambda: float(store.counts().failures),
        "streamscribe_moved_sessions": lambda: float(mover.taken),
    }
