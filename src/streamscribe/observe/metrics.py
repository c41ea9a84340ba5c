"""What is counted, in a registry of its own. Methods are named after facts; labels come from bounded sets only."""

from collections.abc import Callable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import TenantId

_LATENCY_MS = (25, 50, 100, 200, 400, 700, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000)
_STEP_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_RTF = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 5)
_BATCH = (1, 2, 4, 8, 16, 32, 64, 128)

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
        self.registry = registry = CollectorRegistry()
        self._tenants: set[str] = set()

        def histogram(name: str, doc: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, doc, labels, buckets=buckets, registry=registry)

        self._sessions = Gauge(
            "funasr_active_sessions", "Sessions open, with or without a connection.", ["tenant"], registry=registry
        )
        self._streams = Gauge("funasr_active_streams", "Sessions that a worker holds.", registry=registry)
        self._first_token = histogram(
            "funasr_first_token_latency_ms", "From the start of voice to the first partial.", _LATENCY_MS
        )
        self._partial_interval = histogram(
            "funasr_partial_update_interval_ms", "Between two partials of a segment.", _LATENCY_MS
        )
        self._final = histogram(
            "funasr_final_latency_ms", "From the end of voice to a pass's final.", _LATENCY_MS, "pass"
        )
        self._rtf = histogram("funasr_rtf", "Compute time of a step over the audio in it.", _RTF, "model")
        self._queue_wait = histogram("funasr_queue_wait_ms", "Longest wait in a step's batch.", _LATENCY_MS, "model")
        self._finals = Counter(
            "funasr_final_results", "Segments that ended: ok, empty or failed.", ["tenant", "status"], registry=registry
        )
        self._hotword_finals = Counter(
            "streamscribe_hotword_finals",
            "Finals with text of sessions that have hot words, by whether they have at least one of them.",
            ["tenant", "hit"],
            registry=registry,
        )
        self._hotword_ratio = Gauge(
            "funasr_hotword_hit_ratio",
            "Share of such finals that have at least one hot word, since the start.",
            ["tenant"],
            registry=registry,
        )
        self._hotword_hits: dict[str, tuple[int, int]] = {}
        self._refused = Counter(
            "streamscribe_refused_sessions", "Sessions and resumes not let in.", ["code"], registry=registry
        )
        self._failed = Counter(
            "streamscribe_failed_sessions", "Sessions that ended with an error.", ["code"], registry=registry
        )
        self._steps = histogram("streamscribe_step_seconds", "What a model step took.", _STEP_S, "model")
        self._batch = histogram("streamscribe_step_batch_size", "Requests in a model step.", _BATCH, "model")
        self._step_failures = Counter(
            "streamscribe_step_failures", "Requests of model steps that failed.", ["model"], registry=registry
        )
        self._out_of_memory = Counter(
            "streamscribe_step_oom", "Model steps that ran out of memory.", ["model"], registry=registry
        )
        self._inflight = Gauge(
            "funasr_gpu_inflight", "Requests that wait for a model or are in its step.", ["model"], registry=registry
        )
        self._utilisation = Gauge(
            "streamscribe_model_utilisation",
            "Share of a model's time that live sessions would take in full steps.",
            ["model"],
            registry=registry,
        )
        self._lag = Gauge(
            "streamscribe_lag_p95_ms",
            "From the arrival of a live chunk at a model to its step's end; of timers in the event loop.",
            ["where"],
            registry=registry,
        )
        self._shed = Counter(
            "streamscribe_shed_sessions", "Sessions refused for the load, by reason.", ["reason"], registry=registry
        )
        self._segment = histogram(
            "streamscribe_segment_seconds", "What a final's decode took, its waiting included.", _STEP_S
        )
        self._warmup = Gauge("streamscribe_warmup_seconds", "Warm-up of a model.", ["model"], registry=registry)
        self._loop_lag = histogram(
            "streamscribe_event_loop_lag_seconds", "How late the event loop ran a timer.", _STEP_S
        )

    def render(self) -> tuple[bytes, str]:
        """The exposition text and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def session_opened(self, tenant: TenantId) -> None:
        """A session began at the gateway."""
        self._sessions.labels(self._label(tenant)).inc()

    def session_released(self, tenant: TenantId) -> None:
        """A session is over at the gateway."""
        self._sessions.labels(self._label(tenant)).dec()

    def session_refused(self, error: StreamScribeError) -> None:
        """A session or a resume was not let in."""
        self._refused.labels(error.code).inc()

    def session_failed(self, error: StreamScribeError) -> None:
        """A session's connection was closed with an error."""
        self._failed.labels(error.code).inc()

    def stream_opened(self, tenant_id: TenantId) -> None:
        """A worker took a session."""
        self._streams.inc()

    def stream_closed(self, tenant_id: TenantId) -> None:
        """The worker has forgotten it."""
        self._streams.dec()

    def first_partial_sent(self, latency_s: float) -> None:
        """A live segment's first partial, so long after its voice began."""
        self._first_token.observe(latency_s * 1000)

    def partial_sent(self, interval_s: float) -> None:
        """A live segment's next partial."""
        self._partial_interval.observe(interval_s * 1000)

    def final_sent(self, tenant_id: TenantId, latency_s: float | None, pass_: int, last: bool) -> None:
        """A pass's final, so long after its voice ended; None for a file's. A segment counts once, by its last pass."""
        if last:
            self._finals.labels(self._label(tenant_id), "ok").inc()
        if latency_s is not None:
            self._final.labels(str(pass_)).observe(latency_s * 1000)

    def hotwords_sought(self, tenant_id: TenantId, found: bool) -> None:
        """A final with text of a session that has hot words, and whether it has at least one of them."""
        label = self._label(tenant_id)
        self._hotword_finals.labels(label, "yes" if found else "no").inc()
        hits, finals = self._hotword_hits.get(label, (0, 0))
        hits, finals = self._hotword_hits[label] = hits + found, finals + 1
        self._hotword_ratio.labels(label).set(hits / finals)

    def segment_empty(self, tenant_id: TenantId) -> None:
        """A segment in which nobody spoke."""
        self._finals.labels(self._label(tenant_id), "empty").inc()

    def segment_failed(self, tenant_id: TenantId) -> None:
        """A segment whose final will not come."""
        self._finals.labels(self._label(tenant_id), "failed").inc()

    def segment_recognised(self, audio_s: float, elapsed_s: float) -> None:
        """What a final's decode took."""
        self._segment.observe(elapsed_s)

    def step_done(self, report: StepFacts) -> None:
        """A model ran a batch."""
        self._steps.labels(report.name).observe(report.step_s)
        self._batch.labels(report.name).observe(report.batch_size)
        self._queue_wait.labels(report.name).observe(report.queue_wait_s * 1000)
        if report.audio_s > 0:
            self._rtf.labels(report.name).observe(report.step_s / report.audio_s)
        if report.failed:
            self._step_failures.labels(report.name).inc(report.failed)
        if report.out_of_memory:
            self._out_of_memory.labels(report.name).inc(report.out_of_memory)

    def session_shed(self, reason: str) -> None:
        """A session was refused because of the load."""
        self._shed.labels(reason).inc()

    def model_watched(self, model: str, inflight: Callable[[], float], utilisation: Callable[[], float]) -> None:
        """A model whose state is asked for at each rendering."""
        self._inflight.labels(model).set_function(inflight)
        self._utilisation.labels(model).set_function(utilisation)

    def lag_watched(self, where: str, lag_p95_s: Callable[[], float]) -> None:
        """Something whose lag is asked for at each rendering."""
        self._lag.labels(where).set_function(lambda: 1000 * lag_p95_s())

    def warmed_up(self, model: str, seconds: float) -> None:
        """A model is warm."""
        self._warmup.labels(model).set(seconds)

    def loop_lagged(self, seconds: float) -> None:
        """The event loop ran a timer so late."""
        self._loop_lag.observe(seconds)

    def _label(self, tenant: TenantId) -> str:
        if tenant in self._tenants:
            return tenant
        if len(self._tenants) >= MAX_TENANTS:
            return OTHER_TENANTS
        self._tenants.add(tenant)
        return tenant
