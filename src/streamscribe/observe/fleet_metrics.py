"""What becomes of worker processes and of the sessions between them, counted."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from streamscribe.core.ids import SessionId
from streamscribe.core.records import SessionOpened
from streamscribe.observe.logs import get_logger

_log = get_logger(__name__)


class FleetMetrics:
    """Observes a supervisor and the local bus (`LocalBusObserver`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "streamscribe_worker_ends",
            "Worker processes that ended or were ended, by cause.",
            ["cause"],
            registry=registry,
        )
        self._ready = Gauge(
            "streamscribe_ready_workers", "Worker processes that may be given sessions.", registry=registry
        )
        self._memory = Gauge(
            "streamscribe_worker_memory_bytes",
            "Resident memory of a worker process; 0 between two.",
            ["worker"],
            registry=registry,
        )
        self._taken_over = Counter(
            "streamscribe_taken_over_sessions", "Sessions whose worker was gone and that went on.", registry=registry
        )
        self._quarantined = Counter(
            "streamscribe_quarantined_sessions", "Sessions whose audio ended workers.", registry=registry
        )
        self._fenced = Counter(
            "streamscribe_fenced_events", "Events dropped of workers that had lost their sessions.", registry=registry
        )

    def worker_ended(self, cause: str) -> None:
        """A worker process ended, for a cause that the supervisor names."""
        self._ended.labels(cause).inc()

    def worker_weighs(self, number: int, resident_bytes: int) -> None:
        """So much memory a worker process has."""
        self._memory.labels(str(number)).set(resident_bytes)

    def workers_watched(self, ready: Callable[[], float]) -> None:
        """Whose number is asked for at each rendering."""
        self._ready.set_function(ready)

    def over(self, session_id: SessionId) -> None:
        """The bus has forgotten a session: who let it in counts that."""

    def taken_over(self, opened: SessionOpened) -> None:
        """A session goes on at another worker, or waits for one."""
        self._taken_over.inc()
        _log.info("session taken over from another worker", **_names(opened))

    def quarantined(self, opened: SessionOpened, index: int) -> None:
        """A session is not tried again."""
        self._quarantined.inc()
        _log.error("session quarantined", record=index, **_names(opened))

    def fenced(self) -> None:
        """A late event was dropped."""
        self._fenced.inc()


def _names(opened: SessionOpened) -> dict[str, str]:
    return {"tenant_id": opened.tenant_id, "session_id": opened.session_id, "trace_id": opened.trace_id}
