"""A finalizer of a cluster: one recogniser, and the segments of whichever partitions the group gives it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NoReturn

from streamscribe.bootstrap.caches import open_caches
from streamscribe.bootstrap.cluster.board import on_board
from streamscribe.bootstrap.cluster.group import tell_partitions
from streamscribe.bootstrap.cluster.health import Health, Readiness, fail_with, metrics_door
from streamscribe.bootstrap.cluster.working import Working, announce_in_group
from streamscribe.bootstrap.desk import sweep
from streamscribe.bootstrap.hangups import hangups
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.reload import Reloading, reload_at_hangup, role_of_finalizer
from streamscribe.bootstrap.sessions import need_cluster, open_attempts
from streamscribe.core.batching import Priority
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.fair_share import Share
from streamscribe.gateway.app import create_health_app
from streamscribe.gateway.drain import done_before, stop_signals
from streamscribe.gateway.listener import Address, Binding, Listener, bound, url_here
from streamscribe.models.memory import share_heap
from streamscribe.models.pool import WATCH_EVERY_S, Recognition, close_version, start_and_wait
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.models.slot import Slot
from streamscribe.observe.cluster_metrics import ClusterMetrics, Read
from streamscribe.observe.logs import get_logger
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import Settings

if TYPE_CHECKING:
    from streamscribe.bus.kafka.finals.answering import KafkaFinalizer

_log = get_logger(__name__)


class Stopped(Exception):
    """The recogniser can hear nothing any more: others must take over what is asked."""


class Hearing:
    """The recogniser, for requests of the log; a request is heard to its end by the version that it came to."""

    def __init__(self, recognition: Recognition) -> None:
        self.slot = Slot(recognition)

    async def __call__(self, request: SegmentRequest, priority: Priority, audio_s: float, share: Share) -> Hypothesis:
        """What was heard. Raises Stopped where the model has stopped, hangs or fails at everything."""
        version = self.slot.take()
        try:
            return await version.stage.submit(request, priority=priority, audio_s=audio_s, share=share, patient=True)
        except ModelUnavailable as error:
            if any(part.outage() is not None for part in version.parts):
                raise Stopped from error
            raise
        finally:
            self.slot.give_back(version)

    def not_ready(self) -> list[str]:
        """The names of what new requests come to and is not ready."""
        return [part.name for part in self.slot.current.parts if not part.ready]

    async def watch(self) -> NoReturn:
        """Fails what waits for a step that hangs; ends by cancellation."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for version in self.slot.versions:
                for part in version.parts:
                    part.fail_if_stalled()

    def close(self) -> None:
        """Joins the threads of all versions; blocks."""
        for version in self.slot.versions:
            close_version(version)


async def serve_finalizer(
    settings: Settings, *, started_at: float, announce: Callable[[Working], None], reread: Callable[[], Settings]
) -> None:
    """Works until SIGTERM or SIGINT: then it answers what it has read and leaves the group.

    Joins the group when its model is warm, and is announced when that has given it its share. Each SIGHUP brings the
    model to the settings as `reread` then. Raises SettingsError for what is not set, BusUnavailable at the start and
    when requests cannot be answered any more, ModelUnavailable for the model.
    """
    need_cluster(settings)
    from streamscribe.bus.kafka.finals.answering import KafkaFinalizer

    ours = settings.finalizer
    share_heap()
    metrics = Metrics()
    address = Address(ours.health_host, ours.health_port, "finalizer.health_port")
    with hangups() as hung_up, bound(address) as sockets:
        async with AsyncExitStack() as stack:
            stop = await stack.enter_async_context(stop_signals())
            door = await stack.enter_async_context(metrics_door(settings))
            attempts = open_attempts(settings.store)
            stack.push_async_callback(attempts.close)
            one_tenant = settings.gateway.tenants_file is None
            caches = await asyncio.to_thread(open_caches, settings.cache, one_tenant=one_tenant)
            stack.push_async_callback(asyncio.to_thread, caches.levels.close)
            finalizer = KafkaFinalizer(settings.kafka, attempts, caches.purges)
            finalizer.on_partitions = tell_partitions
            await finalizer.start()
            stack.push_async_callback(finalizer.close)
            ClusterMetrics(metrics.registry, _figures(finalizer))
            health = Health({"bus": finalizer.check})
            loader = ModelLoader(
                metrics.step_done, caches=caches, registry=metrics.registry, on_ejected=metrics.model_ejected
            )
            recognition = await asyncio.to_thread(loader.recognition, settings.model)
            hearing = Hearing(recognition)
            stack.push_async_callback(asyncio.to_thread, hearing.close)
            stack.push_async_callback(finalizer.close)  # before that, which may take long: the group shall not wait
            reloading = Reloading([role_of_finalizer(hearing.slot, loader)], settings.model, metrics)
            readiness = Readiness(hearing.not_ready, health, finalizer.joined)
            app = create_health_app(metrics, readiness, door)
            listener = await stack.enter_async_context(
                Listener([Binding(app, sockets[0])], settings.gateway, settings.limits)
            )
            async with asyncio.TaskGroup() as tasks:
                works = (health.watch(), hearing.watch(), sweep(caches.levels), probe_event_loop(metrics.loop_lagged))
                ends = (reload_at_hangup(hung_up, reloading, reread), fail_with(finalizer.failed))
                running = [tasks.create_task(work) for work in (*works, *ends)]
                if await done_before(stop, asyncio.to_thread(start_and_wait, recognition)):
                    finalizer.attach(hearing)
                    url = url_here("http", ours.health_host, listener.ports[0])
                    warmup_s = {part.name: part.warmup_s for part in recognition.parts}
                    name = f"finalizer-{finalizer.name}"
                    async with on_board(settings.store, name, lambda: None, caches.levels):
                        telling = announce_in_group(
                            finalizer.joined, announce, url=url, started_at=started_at, warmup_s=warmup_s
                        )
                        running.append(tasks.create_task(telling))
                        await stop.wait()
                readiness.leaving = True
                _log.info(
                    "draining: what was read is answered", count=finalizer.waiting, deadline_s=ours.drain_timeout_s
                )
                await finalizer.close(ours.drain_timeout_s)
                _log.info("left the group")
                for task in running:
                    task.cancel()


def _figures(finalizer: "KafkaFinalizer") -> dict[str, Read]:
    return {
        "streamscribe_finalizer_partitions": lambda: float(len(finalizer.partitions)),
        "streamscribe_finalizer_waiting_requests": lambda: float(finalizer.waiting),
        "streamscribe_finalizer_waiting_audio_seconds": lambda: finalizer.waiting_s,
        "streamscribe_finalizer_oldest_seconds": lambda: finalizer.oldest_s,
        "streamscribe_finalizer_answered": lambda: float(finalizer.answered),
        "streamscribe_finalizer_repeated": lambda: float(finalizer.repeated),
        "streamscribe_finalizer_expired": lambda: float(finalizer.expired),
        "streamscribe_dead_letters": lambda: float(finalizer.dead_letters),
    }
