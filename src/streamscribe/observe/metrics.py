"""What is counted, in a registry of its own. Methods are named after facts; labels come from bounded sets only."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.observe.instruments import (
    LoadInstruments,
    ResultInstruments,
    SessionInstruments,
    StepInstruments,
)

MAX_TENANTS = 1000
"""Tenants with a label of their own; further ones are counted together."""
OTHER_TENANTS = "other"


class StepFacts(Protocol):
    """What a model step reports (`models.replica.StepReport`)."""

    @property
    def name(self) -> str:
        """The model."""
        ...

    @property
    def batch_size(self) -> int:
        """Requests in the step."""
        ...

    @property
    def queue_wait_s(self) -> float:
        """The longest wait of them."""
        ...

    @property
    def step_s(self) -> float:
        """What the step took."""
        ...

    @property
    def audio_s(self) -> float:
        """Audio in it."""
        ...

    @property
    def failed(self) -> int:
        """Requests that got an error."""
        ...

    @property
    def out_of_memory(self) -> int:
        """Tries of it that ran out of memory."""
        ...


class Metrics:
    """The process' metrics. Safe to call from any thread; latencies are those of live streams, not of files."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._sessions = SessionInstruments(self.registry)
        self._results = ResultInstruments(self.registry)
        self._steps = StepInstruments(self.registry)
        self._load = LoadInstruments(self.registry)
        self._tenants: set[str] = set()
        self._hotword_hits: dict[str, tuple[int, int]] = {}

    def render(self) -> tuple[bytes, str]:
        """The exposition text and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    async def exposition(self) -> tuple[bytes, str]:
        """As `render`, in a thread: with many tenants it takes longer than the event loop may wait."""
        return await asyncio.to_thread(self.render)

    def session_opened(self, tenant: TenantId) -> None:
        """A session began at the gateway."""
        self._sessions.active.labels(self._label(tenant)).inc()

    def session_released(self, tenant: TenantId) -> None:
        """A session is over at the gateway."""
        self._sessions.active.labels(self._label(tenant)).dec()

    def session_refused(self, error: StreamScribeError) -> None:
        """A session or a resume was not let in."""
        self._sessions.refused.labels(error.code).inc()

    def session_failed(self, error: StreamScribeError) -> None:
        """A session ended with an error, whether its client could be told or not."""
        self._sessions.failed.labels(error.code).inc()

    def stream_opened(self, tenant_id: TenantId) -> None:
        """A worker took a session."""
        self._sessions.streams.inc()

    def stream_closed(self, tenant_id: TenantId) -> None:
        """The worker has forgotten it."""
        self._sessions.streams.dec()

    def first_partial_sent(self, latency_s: float) -> None:
        """A live segment's first partial, so long after its voice began."""
        self._results.first_token_ms.observe(latency_s * 1000)

    def partial_sent(self, interval_s: float) -> None:
        """A live segment's next partial."""
        self._results.partial_interval_ms.observe(interval_s * 1000)

    def final_sent(self, tenant_id: TenantId, latency_s: float | None, pass_: int, last: bool) -> None:
        """A pass's final, so long after its voice ended; None for a file's. A segment counts once, by its last pass."""
        if last:
            self._results.finals.labels(self._label(tenant_id), "ok").inc()
        if latency_s is not None:
            self._results.final_ms.labels(str(pass_)).observe(latency_s * 1000)

    def hotwords_sought(self, tenant_id: TenantId, found: bool) -> None:
        """A final with text of a session that has hot words, and whether it has at least one of them."""
        label = self._label(tenant_id)
        self._results.hotword_finals.labels(label, "yes" if found else "no").inc()
        hits, finals = self._hotword_hits.get(label, (0, 0))
        hits, finals = self._hotword_hits[label] = hits + found, finals + 1
        self._results.hotword_ratio.labels(label).set(hits / finals)

    def transcript_sought(self, found: bool) -> None:
        """A final was looked up among the transcripts that are kept."""
        self._results.transcript_lookups.labels("hit" if found else "miss").inc()

    def segment_empty(self, tenant_id: TenantId) -> None:
        """A segment in which nobody spoke."""
        self._results.finals.labels(self._label(tenant_id), "empty").inc()

    def taken_over_with_other_models(self) -> None:
        """A session whose former worker heard it with other versions."""
        self._results.other_models.inc()

    def segment_degraded(self, tenant_id: TenantId) -> None:
        """A segment whose last final is the text of its first pass."""
        self._results.degraded.labels(self._label(tenant_id)).inc()

    def first_pass_failed(self, tenant_id: TenantId) -> None:
        """A segment whose text comes with the second pass only."""
        self._results.first_pass_failures.labels(self._label(tenant_id)).inc()

    def segment_failed(self, tenant_id: TenantId) -> None:
        """A segment whose final will not come."""
        self._results.finals.labels(self._label(tenant_id), "failed").inc()

    def segment_recognised(self, audio_s: float, elapsed_s: float) -> None:
        """What a final's decode took."""
        self._results.segment_s.observe(elapsed_s)

    def step_done(self, report: StepFacts) -> None:
        """A model ran a batch."""
        self._steps.seconds.labels(report.name).observe(report.step_s)
        self._steps.batch_size.labels(report.name).observe(report.batch_size)
        self._steps.queue_wait_ms.labels(report.name).observe(report.queue_wait_s * 1000)
        if report.audio_s > 0:
            self._steps.rtf.labels(report.name).observe(report.step_s / report.audio_s)
        if report.failed:
            self._steps.failures.labels(report.name).inc(report.failed)
        if report.out_of_memory:
            self._steps.out_of_memory.labels(report.name).inc(report.out_of_memory)

    def session_shed(self, reason: str) -> None:
        """A session was refused because of the load."""
        self._sessions.shed.labels(reason).inc()

    def stopped_watched(self, count: Callable[[], int]) -> None:
        """Live sessions that are read no further, counted at each rendering."""
        self._sessions.stopped.set_function(count)

    def model_ejected(self, model: str, cause: str) -> None:
        """A model is not ready any more: `failed`, `stalled` or `out_of_memory`. From any thread."""
        self._steps.ejections.labels(model, cause).inc()

    def model_swapped(self, role: str, result: str) -> None:
        """A role's model was replaced while it served (`done`), or why not."""
        self._steps.swaps.labels(role, result).inc()

    def inflight_watched(self, model: str, inflight: Callable[[], float]) -> None:
        """A model whose requests are counted at each rendering."""
        self._load.inflight.labels(model).set_function(inflight)

    def utilisation_watched(self, model: str, utilisation: Callable[[], float]) -> None:
        """A model whose utilisation is asked for at each rendering."""
        self._load.utilisation.labels(model).set_function(utilisation)

    def lag_watched(self, where: str, lag_p95_s: Callable[[], float]) -> None:
        """Something whose lag is asked for at each rendering."""
        self._load.lag_p95_ms.labels(where).set_function(lambda: 1000 * lag_p95_s())

    def warmed_up(self, model: str, seconds: float) -> None:
        """A model is warm."""
        self._load.warmup_s.labels(model).set(seconds)

    def loop_lagged(self, seconds: float) -> None:
        """The event loop ran a timer so late."""
        self._load.loop_lag_s.observe(seconds)

    def _label(self, tenant: TenantId) -> str:
        if tenant in self._tenants:
            return tenant
        if len(self._tenants) >= MAX_TENANTS:
            return OTHER_TENANTS
        self._tenants.add(tenant)
        return tenant
