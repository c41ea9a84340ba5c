"""A worker of a cluster: models, and sessions of whichever partitions the group gives it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from streamscribe.bootstrap.cluster.board import on_board
from streamscribe.bootstrap.cluster.finals import Elsewhere, recognition_elsewhere
from streamscribe.bootstrap.cluster.group import Idle, tell_partitions
from streamscribe.bootstrap.cluster.health import Health, Readiness, fail_with, metrics_door
from streamscribe.bootstrap.cluster.loop_watch import loop_watch
from streamscribe.bootstrap.cluster.watchdog import Watchdog
from streamscribe.bootstrap.cluster.working import Working, announce_in_group
from streamscribe.bootstrap.hangups import hangups
from streamscribe.bootstrap.reload import reload_at_hangup
from streamscribe.bootstrap.sessions import check_shared_sessions, need_cluster, open_shared_sessions
from streamscribe.bootstrap.worker_side import WorkerSide, worker_side
from streamscribe.core.cluster_load import WorkerLoad, voices_by_gateway
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.records import SessionOpened
from streamscribe.gateway.app import create_health_app
from streamscribe.gateway.drain import done_before, stop_signals
from streamscribe.gateway.listener import Address, Binding, Listener, bound, url_here
from streamscribe.observe.cluster_metrics import ClusterMetrics, Read
from streamscribe.observe.logs import get_logger
from streamscribe.observe.metrics import Metrics
from streamscribe.observe.worker_load import WorkerLoadMeter
from streamscribe.ports import SessionStore
from streamscribe.settings import Settings

if TYPE_CHECKING:
    from streamscribe.bus.kafka.worker import KafkaWorkerBus

_log = get_logger(__name__)


async def serve_worker(
    settings: Settings, *, started_at: float, announce: Callable[[Working], None], reread: Callable[[], Settings]
) -> None:
    """Works until SIGTERM or SIGINT: then it gives its sessions to the others and leaves the group.

    Joins the group when its models are warm, and is announced when that has given it its share. Raises SettingsError
    for what is not set, BusUnavailable and StoreUnavailable at the start and when records cannot be read any more,
    ModelUnavailable for models: also when it has left the group because they hang, or because it had outgrown
    `worker.max_memory_bytes`.
    """
    need_cluster(settings)
    from streamscribe.bus.kafka.worker import KafkaWorkerBus

    worker, gateway = settings.worker, settings.gateway
    metrics = Metrics()
    address = Address(worker.health_host, worker.health_port, "worker.health_port")
    with hangups() as hung_up, bound(address) as sockets, loop_watch(worker.hang_timeout_s):
        async with stop_signals() as stop, metrics_door(settings) as door:
            await check_shared_sessions(settings.store)
            store = open_shared_sessions(settings.store)
            try:
                bus = KafkaWorkerBus(
                    settings.kafka,
                    store,
                    settings.limits.max_message_bytes,
                    orphaned_after_s=settings.limits.resume_window_s + settings.store.seat_ttl_s,
                )
                bus.on_taken_over, bus.on_partitions = _tell_taken_over, tell_partitions
                bus.on_quarantined = _tell_quarantined
                await bus.start()
                watchdog = Watchdog(bus, worker)
                ClusterMetrics(metrics.registry, _figures(bus, store))
                load = WorkerLoadMeter()
                health = Health({"bus": bus.check, "store": store.check})
                async with (
                    recognition_elsewhere(settings, metrics.registry) as elsewhere,
                    worker_side(
                        settings,
                        watchdog,
                        metrics,
                        load,
                        warm_first=True,
                        elsewhere=elsewhere.recognition if elsewhere else None,
                    ) as side,
                ):
                    watchdog.watch(side.models)
                    readiness = Readiness(side.models.not_ready, health, bus.joined)
                    app = create_health_app(metrics, readiness, door)
                    async with (
                        Listener([Binding(app, sockets[0])], gateway, settings.limits) as listener,
                        asyncio.TaskGroup() as tasks,
                    ):
                        reloads = reload_at_hangup(hung_up, side.reloading, reread)
                        works = (health.watch(), fail_with(bus.failed), reloads)
                        running: list[asyncio.Task[object]] = [tasks.create_task(work) for work in works]
                        try:
                            if await done_before(stop, asyncio.to_thread(side.models.wait_ready)):
                                url = url_here("http", worker.health_host, listener.ports[0])
                                look = partial(_look, load, bus, side, elsewhere)
                                idle = Idle(settings.kafka.audio_partitions, lambda: bus.partitions)
                                async with on_board(settings.store, bus.owner, look, side.caches.levels, idle.watch):
                                    telling = announce_in_group(
                                        bus.joined,
                                        announce,
                                        url=url,
                                        started_at=started_at,
                                        warmup_s=side.models.warmup_s,
                                    )
                                    running.append(tasks.create_task(telling))
                                    await done_before(stop, watchdog.run())
                        finally:  # before the models close, which may take long: the group shall not wait for them
                            readiness.leaving = True
                            _log.info("leaving the group; others get its sessions", sessions=len(bus.sessions))
                            await bus.close(hung=watchdog.hung)
                            _log.info("left the group")
                        for task in running:
                            task.cancel()
                if watchdog.error is not None:
                    raise watchdog.error
            finally:
                await store.close()


def _tell_taken_over(opened: SessionOpened) -> None:
    names = {"tenant_id": opened.tenant_id, "session_id": opened.session_id, "trace_id": opened.trace_id}
    _log.info("session taken over from another worker", **names)


def _tell_quarantined(session_id: SessionId, trace_id: TraceId, index: int) -> None:
    _log.error("session quarantined", session_id=session_id, trace_id=trace_id, record=index)


def _look(load: WorkerLoadMeter, bus: "KafkaWorkerBus", side: WorkerSide, elsewhere: Elsewhere | None) -> WorkerLoad:
    outage, late = side.models.outage() is not None, elsewhere is not None and elsewhere.is_behind()
    return load.look(bus.partitions, voices_by_gateway(bus.sessions), outage=outage, late=late)


def _figures(bus: "KafkaWorkerBus", store: SessionStore) -> dict[str, Read]:
    return {
        "streamscribe_bus_partitions": lambda: float(len(bus.partitions)),
        "streamscribe_bus_unsent_bytes": lambda: float(bus.unsent_bytes),
        "streamscribe_dead_letters": lambda: float(bus.dead_letters),
        "streamscribe_taken_over_sessions": lambda: float(bus.taken_over),
        "streamscribe_lost_sessions": lambda: float(bus.lost),
        "streamscribe_orphaned_sessions": lambda: float(bus.orphaned),
        "streamscribe_quarantined_sessions": lambda: float(bus.quarantined),
        "streamscribe_dropped_results": lambda: float(bus.dropped),
        "streamscribe_store_fenced": lambda: float(store.counts().fenced),
        "streamscribe_store_failures": lambda: float(store.counts().failures),
    }
