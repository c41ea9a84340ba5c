"""A gateway of a cluster: sessions here, models elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from streamscribe.audio.decode import DecoderPool
from streamscribe.bootstrap.cluster.board import BoardReader, open_board
from streamscribe.bootstrap.cluster.door import BUS, STORE, WORKERS, ClusterDoor, WorkersDoor
from streamscribe.bootstrap.cluster.health import Health, fail_with
from streamscribe.bootstrap.cluster.number import GatewayNumber
from streamscribe.bootstrap.desk import WorkersDesk
from streamscribe.bootstrap.platform import decoding
from streamscribe.bootstrap.sessions import PATIENCE_S, need_cluster, open_shared_sessions, patient_sessions
from streamscribe.core.errors import BusUnavailable
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.moving import Mover
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.observe.cluster_metrics import ClusterMetrics
from streamscribe.observe.load import LoadControl
from streamscribe.observe.logs import get_logger
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import ModelSettings, Settings

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
    from streamscribe.bus.kafka.partitioner import partition_of

    name = name or new_name()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        store = open_shared_sessions(settings.store)
        stack.push_async_callback(store.close)
        keep_every_s = settings.store.seat_ttl_s / 3
        claim = GatewayNumber(store, name, keep_every_s)
        stack.push_async_callback(claim.free)
        async with patient_sessions(settings.store) as patient:
            number = await claim.take(settings.kafka, patient)
        bus = KafkaGatewayBus(settings.kafka, settings.limits.max_backlog_s, settings.limits.max_message_bytes, number)
        await bus.start()
        stack.push_async_callback(bus.close)
        board = await stack.enter_async_context(open_board(settings.store))
        whose = partial(partition_of, partitions=settings.kafka.audio_partitions)
        workers = WorkersDoor(settings.limits, number, whose, metrics.session_shed)
        reader = BoardReader(board, workers)
        async with open_board(settings.store, PATIENCE_S) as patient_board:
            await BoardReader(patient_board, workers).read()
        health = Health({BUS: bus.check, STORE: store.check})
        load = LoadControl(settings.limits, metrics.session_shed)
        without_store = settings.store.admit_when_away
        door = ClusterDoor(load, workers, health, metrics.session_shed, without_store=without_store)
        limits = settings.limits
        seats = SeatKeeper(store, name, keep_every_s, limits.max_new_sessions_per_min)
        behind_s = limits.resume_window_s + limits.slow_reader_timeout_s
        every_s = min(keep_every_s, max(behind_s / 4, 0.5))
        mover = Mover(seats, store, bus, name, every_s=every_s, behind_s=behind_s)
        figures = {
            "streamscribe_known_workers": lambda: float(workers.count),
            "streamscribe_fenced_events": lambda: float(bus.fenced),
            "streamscribe_dead_letters": lambda: float(bus.dead_letters),
            "streamscribe_store_failures": lambda: float(store.counts().failures),
            "streamscribe_moved_sessions": lambda: float(mover.taken),
        }
        ClusterMetrics(metrics.registry, figures)
        hub = Hub(bus, settings.limits, metrics, door, mover, workers.new_id)
        decoders = await stack.enter_async_context(decoding(settings))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())

        def lagged(seconds: float) -> None:
            metrics.loop_lagged(seconds)
            load.loop_lagged(seconds)

        async def fail_without_number() -> None:
            holder = await claim.lost()
            await seats.keep()  # where the store has lost all, it has no tickets either: they are handed in at the end
            raise BusUnavailable(f"the gateway {holder} has the number {number} by now")

        works = (seats.run(), mover.run(), health.watch(), reader.run(), probe_event_loop(lagged))
        ends = (fail_with(bus.failed), fail_without_number())
        running = [tasks.create_task(work) for work in (*works, *ends)]
        try:
            yield ClusterGateway(hub, decoders, metrics, health, workers, WorkersDesk(reader.ask_all), NoModels())
        finally:
            await hub.close()
            await seats.close()
            for task in running:
                task.cancel()
