"""One model replica: a thread that owns an engine, gathers requests into steps and hands each its own answer."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Generic, TypeVar

from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import InternalError, ModelUnavailable, StreamScribeError

Req = TypeVar("Req")
Res = TypeVar("Res")

LAG_SMOOTHING = 0.1
"""What the newest step counts in the moving mean of lags."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One batch: `queue_wait_s` is that of the request that waited longest; `failed` requests got an error."""

    name: str
    batch_size: int
    queue_wait_s: float
    step_s: float
    audio_s: float
    failed: int


@dataclass(slots=True)
class _Pending(Generic[Req, Res]):
    """Who asked, and where the answer goes."""

    request: Req
    future: "asyncio.Future[Res]"
    loop: asyncio.AbstractEventLoop
    answer: Res | None = None
    error: StreamScribeError | None = None


class Replica(Generic[Req, Res]):
    """Runs `step` for requests of any number of sessions and event loops, in one thread of its own.

    `step` gets a batch and returns one result each, in order; one that raises must have changed no state, for the
    batch is then tried again by halves until only the guilty request fails. `warm_up` runs in the thread before the
    replica is ready. `on_step` and `on_error` are called in the thread too: they must be quick and thread-safe.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[Sequence[Req]], Sequence[Res]],
        *,
        policy: BatchPolicy,
        on_step: Callable[[StepReport], None],
        on_error: Callable[[str, BaseException], None] = lambda name, error: None,
        warm_up: Sequence[Callable[[], object]] = (),
    ) -> None:
        self.name = name
        self.population = 0
        """How many sessions may have a request; a step waits for others only while fewer than these wait."""
        self._step = step
        self._on_step = on_step
        self._on_error = on_error
        self._warm_up = warm_up
        self._warmup_s = 0.0
        self._lag_s = 0.0
        self._batcher = Batcher(policy)
        self._pending: dict[int, _Pending[Req, Res]] = {}
        self._next_id = 0
        self._changed = threading.Condition()
        self._sleeping_until: float | None = None
        self._warm = threading.Event()
        self._stopped: str | None = None
        self._thread = threading.Thread(target=self._own, name=f"replica-{name}", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether it is warm and its thread lives."""
        return self._warm.is_set() and self._stopped is None

    @property
    def lag_s(self) -> float:
        """How long a live request takes now, from `submit` to the end of its step: a moving mean of the last steps.

        0 before the first. Cheap, and callable from any thread; as old as the last step with a live request.
        """
        return self._lag_s

    @property
    def warmup_s(self) -> float:
        """How long the warm-up took; 0 before its end."""
        return self._warmup_s

    def start(self) -> None:
        """Starts the thread and returns; requests submitted during the warm-up wait for its end."""
        self._thread.start()

    def wait_ready(self) -> None:
        """Blocks until the warm-up is over; raises ModelUnavailable when it failed."""
        self._warm.wait()
        if self._stopped:
            raise ModelUnavailable(self._stopped)

    async def submit(
        self,
        request: Req,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
    ) -> Res:
        """The result of one request, which shares its step with others of its `group`.

        Never two requests of one `exclusive` key share a step, and theirs keep their order. Cancelling drops what
        still waits. Raises Overloaded over the policy's bound, ModelUnavailable when the replica has stopped, and
        what the step raised for this request alone (InternalError unless it is of our error tree).
        """
        loop = asyncio.get_running_loop()
        pending: _Pending[Req, Res] = _Pending(request, loop.create_future(), loop)
        with self._changed:
            if self._stopped:
                raise ModelUnavailable(self._stopped)
            item = Waiting(self._next_id, priority, audio_s, monotonic(), group, exclusive)
            self._next_id += 1
            if overloaded := self._batcher.add(item):
                raise overloaded
            self._pending[item.id] = pending
            self._wake_if_due()
        try:
            return await pending.future
        except asyncio.CancelledError:
            with self._changed:
                if self._batcher.cancel(item.id):
                    del self._pending[item.id]
            raise

    def close(self, timeout_s: float = 10.0) -> None:
        """Fails what waits, lets the running step end and joins the thread: blocks, at most `timeout_s`."""
        self._stop(f"the model {self.name} is shutting down")
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _wake_if_due(self) -> None:
        """Wakes the sleeping thread only when it has reason to: switching threads for each request costs more."""
        if self._sleeping_until is not None:
            due = self._batcher.next_timer(self.population)
            if due is not None and due < self._sleeping_until:
                self._sleeping_until = None
                self._changed.notify()

    def _own(self) -> None:
        try:
            began = monotonic()
            for warm_up in self._warm_up:
                warm_up()
            self._warmup_s = monotonic() - began
            self._warm.set()
            while batch := self._gather():
                self._run(batch)
        except BaseException as error:  # noqa: BLE001 - the thread's edge: whatever ended it, nobody may wait for ever
            self._on_error(self.name, error)
        finally:
            self._stop(f"the model {self.name} has stopped")
            self._fail(list(self._pending.values()))

    def _gather(self) -> tuple[Waiting, ...]:
        """Sleeps until a batch is due; empty when the replica was stopped."""
        with self._changed:
            while not self._stopped:
                now = monotonic()
                if batch := self._batcher.take(now, self.population):
                    return batch
                due = self._batcher.next_timer(self.population)
                self._sleeping_until = inf if due is None else due
                self._changed.wait(None if due is None else due - now)
                self._sleeping_until = None
            return ()

    def _run(self, batch: tuple[Waiting, ...]) -> None:
        pending = [self._pending[item.id] for item in batch]
        began = monotonic()
        self._try(pending)
        ended = monotonic()
        lags_s = [ended - item.arrived for item in batch if item.priority <= Priority.NORMAL]
        if lags_s:
            self._lag_s += LAG_SMOOTHING * (sum(lags_s) / len(lags_s) - self._lag_s)
        with self._changed:
            for item in batch:
                del self._pending[item.id]
        _deliver(pending)
        self._on_step(
            StepReport(
                name=self.name,
                batch_size=len(batch),
                queue_wait_s=began - min(item.arrived for item in batch),
                step_s=ended - began,
                audio_s=sum(item.audio_s for item in batch),
                failed=sum(one.error is not None for one in pending),
            )
        )

    def _try(self, pending: list[_Pending[Req, Res]]) -> None:
        """Steps, by halves where the step fails, so that each request gets its answer or its own error."""
        try:
            answers = self._step([one.request for one in pending])
            for one, answer in zip(pending, answers, strict=True):
                one.answer = answer
            return
        except Exception as error:  # noqa: BLE001 - the engine's edge: it may raise anything
            if len(pending) == 1:
                self._on_error(self.name, error)
                pending[0].error = _shown(error)
                return
        half = len(pending) // 2
        self._try(pending[:half])
        self._try(pending[half:])

    def _stop(self, why: str) -> None:
        """Takes no more, fails what waits and lets the thread end after its step."""
        with self._changed:
            self._stopped = self._stopped or why
            waiting = [self._pending.pop(item.id) for item in self._batcher.take_all()]
            self._changed.notify_all()
        self._fail(waiting)
        self._warm.set()

    def _fail(self, pending: list[_Pending[Req, Res]]) -> None:
        for one in pending:
            one.error = ModelUnavailable(self._stopped)
        _deliver(pending)


def _shown(error: Exception) -> StreamScribeError:
    """What the requester may see of it; the traceback would keep the batch's audio alive."""
    return error.with_traceback(None) if isinstance(error, StreamScribeError) else InternalError()


def _deliver(pending: Sequence[_Pending[Req, Res]]) -> None:
    """Hands each its answer or error: one call for each event loop, not for each request."""
    for loop in {id(one.loop): one.loop for one in pending}.values():
        try:
            loop.call_soon_threadsafe(_settle, [one for one in pending if one.loop is loop])
        except RuntimeError:
            continue  # that loop is closed: nobody waits there


def _settle(pending: Sequence[_Pending[Req, Res]]) -> None:
    for one in pending:
        if one.future.done():
            continue
        if one.error is not None:
            one.future.set_exception(one.error)
        else:
            one.future.set_result(one.answer)  # type: ignore[arg-type]  # None only where Res allows it
