"""Whether a model still works: steps that fail make it suspect, a trial of its own decides, and later trials bring it
back."""

from enum import StrEnum

from streamscribe.core.integrity import ensure


class State(StrEnum):
    """`SUSPECT` has failed several times in a row, `SHORT` had too little memory; `EJECTED` has failed its trial."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    SHORT = "short"
    EJECTED = "ejected"


class Health:
    """The state of one replica, by the steps that it ran.

    `max_failures` failed steps in a row call for a trial at once: whoever sends what the model cannot take ejects
    nobody else, for the trial is the model's own. One that fails ejects the model and is repeated every `retry_s` until
    it succeeds. Where memory ran out for a request alone, the next step tells, or a trial `retry_s` later.
    """

    def __init__(self, max_failures: int, retry_s: float) -> None:
        self.state = State.HEALTHY
        self._max_failures = max_failures
        self._retry_s = retry_s
        self._failures = 0
        self._trial_at = 0.0

    @property
    def ready(self) -> bool:
        """Whether new work should come: not while memory is short, or after a trial that failed."""
        return self.state in (State.HEALTHY, State.SUSPECT)

    def next_trial(self) -> float | None:
        """When the model is to be tried out; None while it need not be."""
        return None if self.state is State.HEALTHY else self._trial_at

    def succeeded(self) -> None:
        """A step, or a trial, gave answers."""
        self.state, self._failures = State.HEALTHY, 0

    def failed(self, now: float) -> None:
        """A step gave no answer at all, through no fault of its requests."""
        self._failures += 1
        if self.state is State.HEALTHY and self._failures >= self._max_failures:
            self.state, self._trial_at = State.SUSPECT, now

    def ran_short(self, now: float) -> None:
        """A step gave no answer at all, for want of memory."""
        self._failures += 1
        if self.state in (State.HEALTHY, State.SUSPECT):
            self.state, self._trial_at = State.SHORT, now + self._retry_s

    def trial_failed(self, now: float) -> None:
        """The model does not work; one that is short of memory is given requests all the same, which may be smaller."""
        self._trial_at = now + self._retry_s
        if self.state is State.SUSPECT:
            self.state = State.EJECTED

    def check_integrity(self) -> None:
        """What has not failed is healthy, and what is healthy has not failed too often."""
        ensure(self._failures > 0 or self.state in (State.HEALTHY, State.EJECTED), "who is suspect has failed")
        if self.state is State.HEALTHY:
            ensure(self._failures < self._max_failures, "healthy: failures < max_failures")
