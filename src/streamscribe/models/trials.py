"""A replica's health: judged by its steps, decided by trials, and told where it changes."""

from collections.abc import Callable, Sequence
from time import monotonic

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.health import Health, State

SERVER_FAULT = 500
"""HTTP's least status that is no fault of a request."""


class Trials:
    """`core.health` in a replica's thread, which alone calls what changes it; the rest may be asked from any thread.

    `trial` is a run of the model without anybody's request; None where there is none, and it always works then.
    """

    def __init__(
        self,
        name: str,
        trial: Callable[[], object] | None,
        *,
        max_failures: int,
        retry_s: float,
        on_error: Callable[[str, BaseException], None],
        on_ejected: Callable[[str, str], None],
    ) -> None:
        self._name = name
        self._trial = trial
        self._health = Health(max_failures, retry_s)
        self._on_error = on_error
        self._on_ejected = on_ejected

    @property
    def ready(self) -> bool:
        """Whether new work should come."""
        return self._health.ready

    @property
    def ejected(self) -> bool:
        """Whether no work may come."""
        return self._health.state is State.EJECTED

    def due(self, now: float) -> bool:
        """Whether the model is to be tried out."""
        at = self._health.next_trial()
        return at is not None and now >= at

    def next_timer(self) -> float | None:
        """When it will be."""
        return self._health.next_trial()

    def judge(self, errors: Sequence[StreamScribeError | None], *, out_of_memory: bool) -> None:
        """A step is over: what each of its requests got, None an answer."""
        was = self._health.state
        if None in errors:
            self._health.succeeded()
        elif out_of_memory:
            self._health.ran_short(monotonic())
            if was is not State.SHORT and self._health.state is State.SHORT:
                self._on_ejected(self._name, "out_of_memory")
        elif any(error is not None and error.http_status >= SERVER_FAULT for error in errors):
            self._health.failed(monotonic())

    def run(self) -> None:
        """Tries the model out; blocks."""
        try:
            if self._trial is not None:
                self._trial()
        except Exception as error:  # noqa: BLE001 - the engine's edge: it may raise anything
            self.tried(error)
        else:
            self.tried(None)

    def tried(self, error: BaseException | None) -> None:
        """A trial is over, and what it raised; for who runs it otherwise than by `run`."""
        was = self._health.state
        if error is None:
            self._health.succeeded()
            return
        self._on_error(self._name, error)
        self._health.trial_failed(monotonic())
        if was is State.SUSPECT:
            self._on_ejected(self._name, "failed")

    def close(self) -> None:
        """Lets go of the model."""
        self._trial = None
