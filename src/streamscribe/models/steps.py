"""An engine's step over the requests of a batch: all at once, or by halves where it fails; and the clock beside it."""

from collections.abc import Callable, Hashable, Sequence
from math import inf
from time import monotonic
from typing import Generic, TypeVar

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.out_of_memory import is_out_of_memory
from streamscribe.models.pending import Pending, shown

Req = TypeVar("Req")
Res = TypeVar("Res")


class Steps(Generic[Req, Res]):
    """Gives each request of a batch its answer or its own error, in the thread that owns the engine.

    `step` gets a batch and returns one result each, in order; one that raises must have changed no state. `limit` says
    how many requests of a group may share it now; `shrink` hears that so many ran out of memory, which one that is
    alone is told by an error of `no_memory`.
    """

    def __init__(
        self,
        step: Callable[[Sequence[Req]], Sequence[Res]],
        *,
        limit: Callable[[Hashable], int],
        shrink: Callable[[Hashable, int], None],
        no_memory: Callable[[], ModelUnavailable],
        on_error: Callable[[BaseException], None],
        timeout_s: float = inf,
    ) -> None:
        self._step = step
        self._limit = limit
        self._shrink = shrink
        self._no_memory = no_memory
        self._on_error = on_error
        self._timeout_s = timeout_s
        self._began_s: float | None = None
        self._out_of_memory = 0

    @property
    def stalled(self) -> bool:
        """Whether what runs has taken longer than the timeout; from any thread."""
        began_s = self._began_s
        return began_s is not None and monotonic() - began_s > self._timeout_s

    def run(self, pending: Sequence[Pending[Req, Res]], group: Hashable) -> int:
        """Answers all; how many of the tries ran out of memory."""
        self._out_of_memory = 0
        self._try(pending, group)
        return self._out_of_memory

    def try_out(self, trial: Callable[[], None]) -> None:
        """Runs something else of the engine by the same clock."""
        self._began_s = monotonic()
        try:
            trial()
        finally:
            self._began_s = None

    def close(self) -> None:
        """Lets go of the engine."""
        del self._step

    def _try(self, pending: Sequence[Pending[Req, Res]], group: Hashable) -> None:
        if len(pending) > self._limit(group):  # which has just shrunk
            self._try_halves(pending, group)
            return
        self._began_s = monotonic()
        try:
            answers = self._step([one.request for one in pending])
            for one, answer in zip(pending, answers, strict=True):
                one.answer = answer
            return
        except Exception as error:  # noqa: BLE001 - the engine's edge: it may raise anything
            if short := is_out_of_memory(error):
                self._out_of_memory += 1
                self._shrink(group, len(pending))
            if len(pending) == 1:
                self._on_error(error)
                pending[0].error = self._no_memory() if short else shown(error)
                return
        finally:
            self._began_s = None
        self._try_halves(pending, group)  # behind the handler: its error holds what the failed step had in memory

    def _try_halves(self, pending: Sequence[Pending[Req, Res]], group: Hashable) -> None:
        half = len(pending) // 2
        self._try(pending[:half], group)
        self._try(pending[half:], group)
