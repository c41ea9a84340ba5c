"""A finalizer of a cluster: one recogniser, and the segments of whichever partitions the group gives it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from streamscribe.bootstrap.caches import Caches, open_caches
from streamscribe.bootstrap.cluster.group import tell_partitions
from streamscribe.bootstrap.cluster.health import Health, Readiness, fail_with
from streamscribe.bootstrap.cluster.member import Announce, member
from streamscribe.bootstrap.desk import sweep
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.reload import Reloading, reload_at_hangup, role_of_finalizer
from streamscribe.bootstrap.sessions import need_cluster, open_attempts
from streamscribe.core.batching import Priority
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.fair_share import Share
from streamscribe.gateway.drain import done_before
from streamscribe.gateway.listener import Address
from streamscribe.models.memory import share_heap
from streamscribe.models.pool import WATCH_EVERY_S, Recognition, close_version, start_and_wait
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.models.slot import Slot
from streamscribe.observe.cluster_metrics import ClusterMetrics, Read
from streamscribe.observe.logs import get_logger
from streamscribe.observe.loop import probe_event_loop
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
    settings: Settings, *, started_at: float, announce: Announce, reread: Callable[[], Settings]
) -> None:
    """Works until SIGTERM or SIGINT: then it answers what it has read and leaves the group.

    Joins the group when its model is warm, and is announced when that has given it its share. Each SIGHUP brings the
    model to the settings as `reread` then. Raises SettingsError for what is not set, BusUnavailable at the start and
    when requests cannot be answered any more, ModelUnavailable for the model.
    """
    need_cluster(settings)
    ours = settings.finalizer
    share_heap()
    address = Address(ours.health_host, ours.health_port, "finalizer.health_port")
    async with member(settings, address, started_at=started_at, announce=announce) as me, AsyncExitStack() as stack:
        caches, finalizer = await _connected(settings, stack)
        ClusterMetrics(me.metrics.registry, _figures(finalizer))
        loader = ModelLoader(
            me.metrics.step_done, caches=caches, registry=me.metrics.registry, on_ejected=me.metrics.model_ejected
        )
        recognition = await asyncio.to_thread(loader.recognition, settings.model)
        hearing = Hearing(recognition)
        stack.push_async_callback(asyncio.to_thread, hearing.close)
        stack.push_async_callback(finalizer.close)  # before that, which may take long: the group shall not wait
        reloading = Reloading([role_of_finalizer(hearing.slot, loader)], settings.model, me.metrics)
        health = Health({"bus": finalizer.check})
        readiness = Readiness(hearing.not_ready, health, finalizer.joined)
        works = (
            health.watch,
            hearing.watch,
            partial(sweep, caches.levels),
            partial(probe_event_loop, me.metrics.loop_lagged),
            partial(fail_with, finalizer.failed),
            partial(reload_at_hangup, me.hung_up, reloading, reread),
        )
        async with me.tells(readiness, *works):
            if await done_before(me.stop, asyncio.to_thread(start_and_wait, recognition)):
                finalizer.attach(hearing)
                name, warmup_s = f"finalizer-{finalizer.name}", {part.name: part.warmup_s for part in recognition.parts}
                async with me.works(name, finalizer.joined, lambda: None, caches.levels, warmup_s):
                    await me.stop.wait()
            readiness.leaving = True
            drain_s = ours.drain_timeout_s
            _log.info("draining: what was read is answered", count=finalizer.waiting, deadline_s=drain_s)
            await finalizer.close(drain_s)
            _log.info("left the group")


async def _connected(settings: Settings, stack: AsyncExitStack) -> tuple[Caches, "KafkaFinalizer"]:
    """What is kept, and the finalizer that has not joined its group yet; the stack closes them."""
    from streamscribe.bus.kafka.finals.answering import KafkaFinalizer

    attempts = open_attempts(settings.store)
    stack.push_async_callback(attempts.close)
    one_tenant = settings.gateway.tenants_file is None
    caches = await asyncio.to_thread(open_caches, settings.cache, one_tenant=one_tenant)
    stack.push_async_callback(asyncio.to_thread, caches.levels.close)
    finalizer = KafkaFinalizer(settings.kafka, attempts, caches.purges)
    finalizer.on_partitions = tell_partitions
    await finalizer.start()
    stack.push_async_callback(finalizer.close)
    return caches, finalizer


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
