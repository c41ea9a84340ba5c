"""A worker of a cluster: models, and sessions of whichever partitions the group gives it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from streamscribe.bootstrap.cluster.finals import Elsewhere, recognition_elsewhere
from streamscribe.bootstrap.cluster.group import Idle, tell_partitions
from streamscribe.bootstrap.cluster.health import Health, Readiness, fail_with
from streamscribe.bootstrap.cluster.member import Announce, member
from streamscribe.bootstrap.cluster.watchdog import Watchdog
from streamscribe.bootstrap.kafka import kafka_told_too
from streamscribe.bootstrap.reload import reload_at_hangup
from streamscribe.bootstrap.sessions import check_shared_sessions, need_cluster, open_shared_sessions
from streamscribe.bootstrap.worker_side import WorkerSide, worker_side
from streamscribe.core.cluster_load import WorkerLoad, voices_by_gateway
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.records import SessionOpened
from streamscribe.gateway.drain import done_before
from streamscribe.gateway.listener import Address
from streamscribe.observe.cluster_metrics import ClusterMetrics, Read
from streamscribe.observe.logs import get_logger
from streamscribe.observe.worker_load import WorkerLoadMeter
from streamscribe.ports import SessionStore
from streamscribe.settings import Settings

if TYPE_CHECKING:
    from streamscribe.bus.kafka.worker import KafkaWorkerBus
    from streamscribe.store.redis_sessions import RedisSessions

_log = get_logger(__name__)


async def serve_worker(
    settings: Settings, *, started_at: float, announce: Announce, reread: Callable[[], Settings]
) -> None:
    """Works until SIGTERM or SIGINT: then it gives its sessions to the others and leaves the group.

    Joins the group when its models are warm, and is announced when that has given it its share. Raises SettingsError
    for what is not set, BusUnavailable and StoreUnavailable at the start and when records cannot be read any more,
    ModelUnavailable for models: also when it has left the group because they hang, or because it had outgrown
    `worker.max_memory_bytes`.
    """
    need_cluster(settings)
    worker = settings.worker
    address = Address(worker.health_host, worker.health_port, "worker.health_port")
    async with member(settings, address, started_at=started_at, announce=announce) as me, AsyncExitStack() as stack:
        store, bus = await _connected(settings, stack)
        watchdog = Watchdog(bus, worker)
        ClusterMetrics(me.metrics.registry, _figures(bus, store))
        load = WorkerLoadMeter()
        finals = await stack.enter_async_context(recognition_elsewhere(settings, me.metrics.registry))
        elsewhere = finals.recognition if finals else None
        side = await stack.enter_async_context(
            worker_side(settings, watchdog, me.metrics, load, warm_first=True, elsewhere=elsewhere)
        )
        bus.steps = side.worker.steps
        watchdog.watch(side.models)
        health = Health({"bus": bus.check, "store": store.check})
        readiness = Readiness(side.models.not_ready, health, bus.joined)
        reloads = partial(reload_at_hangup, me.hung_up, side.reloading, reread)
        async with me.tells(readiness, health.watch, partial(fail_with, bus.failed), reloads):
            try:
                if await done_before(me.stop, asyncio.to_thread(side.models.wait_ready)):
                    look = partial(_look, load, bus, side, finals)
                    idle = Idle(settings.kafka.audio_partitions, lambda: bus.partitions)
                    levels, warmup_s = side.caches.levels, side.models.warmup_s
                    async with me.works(bus.owner, bus.joined, look, levels, warmup_s, idle.watch):
                        await done_before(me.stop, watchdog.run())
            finally:  # before the models close, which may take long: the group shall not wait for them
                readiness.leaving = True
                _log.info("leaving the group; others get its sessions", sessions=len(bus.sessions))
                await bus.close(hung=watchdog.hung)
                _log.info("left the group")
    if watchdog.error is not None:
        raise watchdog.error


async def _connected(settings: Settings, stack: AsyncExitStack) -> "tuple[RedisSessions, KafkaWorkerBus]":
    """The store, which the stack closes, and the bus, which has not joined its group yet."""
    from streamscribe.bus.kafka.worker import KafkaWorkerBus

    async with kafka_told_too(settings):
        await check_shared_sessions(settings.store)
    store = open_shared_sessions(settings.store)
    stack.push_async_callback(store.close)
    orphaned_after_s = settings.limits.resume_window_s + settings.store.seat_ttl_s
    max_message_bytes = settings.limits.max_message_bytes
    bus = KafkaWorkerBus(settings.kafka, store, max_message_bytes, orphaned_after_s=orphaned_after_s)
    bus.on_taken_over, bus.on_partitions = _tell_taken_over, tell_partitions
    bus.on_quarantined = _tell_quarantined
    await bus.start()
    return store, bus


def _tell_taken_over(opened: SessionOpened) -> None:
    names = {"tenant_id": opened.tenant_id, "session_id": opened.session_id, "trace_id": opened.trace_id}
    _log.info("session taken over from another worker", **names)


def _tell_quarantined(session_id: SessionId, trace_id: TraceId, index: int) -> None:
    _log.error("session quarantined", session_id=session_id, trace_id=trace_id, record=index)


def _look(load: WorkerLoadMeter, bus: "KafkaWorkerBus", side: WorkerSide, elsewhere: Elsewhere | None) -> WorkerLoad:
    outage, late = side.models.outage() is not None, elsewhere.late() if elsewhere is not None else frozenset()
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
