"""Who measures the load and keeps the door: the core's gauge and policy, with a clock and a lock."""

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Protocol

from streamscribe.core.admission import LoadAdmission
from streamscribe.core.batching import OVERLOAD_RETRY_S
from streamscribe.core.errors import Overloaded, StreamScribeError
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.load import LoadGauge, StepLoad
from streamscribe.core.options import SessionOptions
from streamscribe.settings import LimitSettings

EVENT_LOOP = "event-loop"
"""Its lag counts like that of a model."""
OUTAGE = "outage"
"""Why nobody is let in while a model does not answer."""


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
    def batch_limit(self) -> int:
        """How many of such requests could have shared it."""
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
    def live(self) -> int:
        """Requests of live sessions."""
        ...

    @property
    def live_asked(self) -> int:
        """Requests of live sessions that came since the step before."""
        ...

    @property
    def live_asked_s(self) -> float:
        """Their audio."""
        ...

    @property
    def lag_s(self) -> float | None:
        """The longest way of a live chunk through it."""
        ...


def step_load(report: StepFacts) -> StepLoad:
    """As the gauge takes it."""
    return StepLoad(
        busy_s=report.step_s,
        requests=report.batch_size,
        work=report.audio_s or float(report.batch_size),
        live_asked=report.live_asked_s if report.audio_s else float(report.live_asked),
        limit=report.batch_limit,
    )


class LoadControl:
    """Admission by load for the sessions of a gateway. Reports come from any thread; all else from the event loop.

    `outage` says what is wrong where no session could be served; it is asked first. `shed` hears why one was refused.
    Files are never refused for the load: they take what live sessions leave.
    """

    def __init__(
        self, limits: LimitSettings, shed: Callable[[str], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self.outage: Callable[[], StreamScribeError | None] = lambda: None
        self._shed = shed
        self._clock = clock
        self._lock = Lock()
        self._gauge = LoadGauge(clock())
        self._admission = LoadAdmission(
            self._gauge,
            limits.max_utilisation,
            limits.max_lag_ms / 1000,
            limits.max_newcomers,
            limits.priority_reserve,
        )

    def step_done(self, report: StepFacts) -> None:
        """A model ran a batch."""
        with self._lock:
            now = self._clock()
            self._gauge.step(report.name, step_load(report), now)
            if report.lag_s is not None:
                self._gauge.lagged(report.name, report.lag_s, report.live, now)

    def loop_lagged(self, seconds: float) -> None:
        """The event loop ran a timer so late."""
        with self._lock:
            self._gauge.lagged(EVENT_LOOP, seconds, 1, self._clock())

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId | None = None,
        tenant: TenantId | None = None,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        """Counts one more session, to be released, or says why not and counts nothing; at once, and without work.

        Which session it is, and whose, is of no importance here. One that `yields` leaves a reserve to tenants with
        priority. One that `resumes` was let in before: no load keeps it out.
        """
        if (error := self.outage()) is not None:
            self._shed(OUTAGE)
            return error
        if resumes:
            self.take(options)
            return None
        if not options.live:
            return None
        with self._lock:
            shed = self._admission.admit(options.audio.channels, self._clock(), yields=yields)
        if shed is None:
            return None
        self._shed(shed)
        return Overloaded(retry_after_s=OVERLOAD_RETRY_S)

    def take(self, options: SessionOptions) -> None:
        """Counts one more session without asking: it was let in before, elsewhere."""
        if options.live:
            with self._lock:
                self._gauge.add_voices(options.audio.channels, self._clock())

    def release(self, options: SessionOptions, session_id: SessionId | None = None) -> None:
        """A session that was admitted with these options is over."""
        if options.live:
            with self._lock:
                self._admission.release(options.audio.channels, self._clock())

    def names(self) -> tuple[str, ...]:
        """The models that have reported, and the event loop."""
        with self._lock:
            return tuple(self._gauge.names())

    def utilisation(self, name: str) -> float:
        """The share of a model's time that live sessions would take in full steps."""
        with self._lock:
            return self._gauge.utilisation(name, self._clock())

    def lag_p95_s(self, name: str) -> float:
        """What 95 % of the last seconds' live chunks did not exceed in a model, or timers in the event loop."""
        with self._lock:
            return self._gauge.lag_p95_s(name, self._clock())
