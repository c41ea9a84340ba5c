"""A worker whose whole segments are recognised by finalizers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from streamscribe.bootstrap.cluster.health import fail_with
from streamscribe.bootstrap.engines import reads_on, tail_padding_ms
from streamscribe.bootstrap.models import segments_policy
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.ids import TenantId
from streamscribe.models.pool import Recognition
from streamscribe.models.ports import Hypothesis, Identity, SegmentRequest
from streamscribe.observe.cluster_metrics import ClusterMetrics
from streamscribe.settings import Settings
from streamscribe.wire.final_requests import MAX_AUDIO_S


@dataclass(frozen=True, slots=True)
class RecognizerElsewhere:
    """What a worker knows of the recogniser that its finalizers have: the settings, which are theirs too.

    Which languages it knows, and what its files are, only they can say: a language that it does not know is refused
    with the first final, and no answer of it is kept.
    """

    tail_padding_ms: int
    identity: Identity = ("elsewhere",)
    deterministic: bool = False
    max_samples: int = MAX_AUDIO_S * SAMPLE_RATE

    def check_language(self, code: str) -> None:
        """Any may be one that it knows."""

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """Is the finalizers' affair."""
        raise AssertionError("nothing is recognised here")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What asks finalizers, and the tenants whose segments wait for them too long that cannot do without."""

    recognition: Recognition
    late: Callable[[], frozenset[TenantId]]


@asynccontextmanager
async def recognition_elsewhere(settings: Settings, registry: CollectorRegistry) -> AsyncIterator[Elsewhere | None]:
    """What asks the finalizers of the settings' cluster; None where a worker recognises segments itself.

    Raises BusUnavailable where no broker answers, and as soon as answers cannot be read any more.
    """
    if not settings.finalizer.enabled:
        yield None
        return
    from streamscribe.bus.kafka.finals.asking import Finalizers, Patience

    patience = Patience(settings.finalizer.timeout_s, settings.finalizer.file_timeout_s)
    asking = Finalizers(settings.kafka, segments_policy(settings.model), patience)
    await asking.connect()
    loop, bound_s = asyncio.get_running_loop(), settings.worker.degrade_after_ms / 1000
    figures = {
        "streamscribe_finals_pending": lambda: float(asking.inflight),
        "streamscribe_finals_oldest_seconds": lambda: asking.lag_s(loop.time()),
        "streamscribe_finals_answered": lambda: float(asking.answered),
        "streamscribe_finals_timed_out": lambda: float(asking.timed_out),
        "streamscribe_finals_dropped": lambda: float(asking.dropped),
    }
    ClusterMetrics(registry, figures)
    known = RecognizerElsewhere(tail_padding_ms(settings.model))

    try:
        async with asyncio.TaskGroup() as tasks:
            failing = tasks.create_task(fail_with(asking.failed))
            try:
                recognition = Recognition(known, asking, reads_on=reads_on(settings.model))
                yield Elsewhere(recognition, lambda: asking.late(loop.time(), bound_s))
            finally:
                failing.cancel()
    finally:
        await asking.disconnect()
