"""One model replica: a thread that owns an engine, gathers requests into steps and hands each its own answer."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import takewhile
from math import inf
from time import monotonic
from typing import Generic, TypeVar

from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import ModelUnavailable, StreamScribeError
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.models.pending import Pending, deliver
from streamscribe.models.room import Room
from streamscribe.models.stage import THREAD_PREFIX
from streamscribe.models.step_report import StepReport as StepReport
from streamscribe.models.steps import Steps
from streamscribe.models.trials import Trials

Req = TypeVar("Req")
Res = TypeVar("Res")

LAG_SMOOTHING = 0.1
"""What the newest step counts in the moving mean of lags."""
RETRY_S = 5.0
"""When a client may come back to a model that hangs or has no memory left."""


class Replica(Generic[Req, Res]):
    """Runs `step` for requests of any number of sessions and event loops, in one thread of its own.

    `step` gets a batch and returns one result each, in order; one that raises must have changed no state, for the
    batch is then tried again by halves until only the guilty request fails. Where memory ran out, later steps are
    smaller too. `warm_up` runs in the thread before the replica is ready; the first of it again as a trial, when
    `max_failures` steps in a row gave no answer or memory ran out (`core.health`). While trials fail it takes nothing.
    A step that takes longer than `step_timeout_s` makes the replica unready until it ends; meanwhile nothing waits for
    it (`fail_if_stalled`).

    The hooks are called in the thread, or by a watchdog: they must be quick and thread-safe. `on_ejected` hears why the
    replica is not ready any more.
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
        step_timeout_s: float = inf,
        max_failures: int = 5,
        on_ejected: Callable[[str, str], None] = lambda name, cause: None,
    ) -> None:
        self.name = name
        self.policy = policy
        """How its requests are gathered into steps."""
        self.population = 0
        """How many sessions may have a request; a step waits for others only while fewer than these wait."""
        self._coming = 0
        self._on_step = on_step
        self._on_error = on_error
        self._warm_up = warm_up
        self._on_ejected = on_ejected
        self._trials = Trials(
            name,
            warm_up[0] if warm_up else None,
            max_failures=max_failures,
            retry_s=RETRY_S,
            on_error=on_error,
            on_ejected=on_ejected,
        )
        self._stall_told = False
        self._warmup_s = 0.0
        self._lag_s = 0.0
        self._batcher = Batcher(policy)
        self._steps = Steps(
            step,
            limit=lambda group: self._batcher.limit(group, 0),
            shrink=self._shrink,
            no_memory=self._no_memory,
            on_error=partial(on_error, name),
            timeout_s=step_timeout_s,
        )
        self._room = Room()
        self._pending: dict[int, Pending[Req, Res]] = {}
        self._next_id = 0
        self._changed = threading.Condition()
        self._sleeping_until: float | None = None
        self._warm = threading.Event()
        self._stopped: str | None = None
        self._thread = threading.Thread(target=self._own, name=THREAD_PREFIX + name, daemon=True)

    @property
    def parts(self) -> "tuple[Replica[Req, Res], ...]":
        """Itself, as of a stage that has more."""
        return (self,)

    @property
    def ready(self) -> bool:
        """Whether it is warm, its thread lives, its step does not hang, and its steps succeed."""
        return self._warm.is_set() and self._stopped is None and not self.stalled and self._trials.ready

    @property
    def stalled(self) -> bool:
        """Whether the step that runs has taken longer than the timeout."""
        return self._steps.stalled

    def outage(self) -> ModelUnavailable | None:
        """Why it would take no request now."""
        if self._stopped is not None:
            return self._unavailable()
        if self._trials.ejected:
            return self._failing()
        return self._stall() if self.stalled else None

    @property
    def inflight(self) -> int:
        """Requests that wait or run."""
        return self._batcher.inflight

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
            raise self._unavailable()

    async def submit(
        self,
        request: Req,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        since_s: float | None = None,
        patient: bool = False,
    ) -> Res:
        """The result of one request, which shares its step with others of its `group`, and takes of its `share`.

        Never two requests of one `exclusive` key share a step, and theirs keep their order. With `since_s` it stands
        in line as if it had come then (`time.monotonic`). Cancelling drops what still waits. Raises Overloaded over
        the policy's bounds, unless it is `patient` and waits for room; ModelUnavailable when the replica has stopped or
        its step hangs, and what the step raised for this request alone (InternalError unless it is of our error tree).
        """
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        pending = Pending(request, answer, loop)
        line_up = partial(self._line_up, pending, priority, audio_s, group, exclusive, share, since_s)
        item_id = await self._room.enter(priority, line_up, share.tenant) if patient else line_up()
        try:
            result: Res = await answer
        except asyncio.CancelledError:
            self._drop(item_id)
            raise
        return result

    def enqueue(
        self,
        request: Req,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        since_s: float | None = None,
    ) -> "Future[Res]":
        """As `submit`, from any thread: raises at once what keeps it out, and gives the rest by the future.

        Callbacks of the future run in the replica's thread, so they must be quick.
        """
        answer: Future[Res] = Future()
        item_id = self._line_up(Pending(request, answer, None), priority, audio_s, group, exclusive, share, since_s)
        answer.add_done_callback(partial(self._drop_if_cancelled, item_id))
        return answer

    def hurry(self, answer: "Future[Res]", priority: Priority) -> None:
        """Gives a request that `enqueue` took a higher priority, if it still waits: somebody else waits for it too."""
        with self._changed:
            item_id = next((item_id for item_id, one in self._pending.items() if one.future is answer), None)
            if item_id is not None and self._batcher.hurry(item_id, priority):
                self._wake_if_due()

    def expect(self, requests: int) -> None:
        """So many more are about to come (fewer, if negative): a step waits for them, as long as its policy lets it."""
        with self._changed:
            self._coming += requests
            if requests < 0:
                self._wake_if_due()

    def fail_if_stalled(self) -> None:
        """Fails all that waits for a step that hangs; for a watchdog, from any thread. Does nothing else.

        What is in that step fails too: if it ends after all, its answers are dropped.
        """
        with self._changed:
            if not self.stalled:
                self._stall_told = False
                return
            lost = list(self._pending.values())
            for item in self._batcher.take_all():
                del self._pending[item.id]
            told, self._stall_told = self._stall_told, True
        if not told:
            self._on_error(self.name, self._stall())
            self._on_ejected(self.name, "stalled")
        self._fail(lost, self._stall)

    def close(self, timeout_s: float = 10.0) -> None:
        """Fails what waits, lets the running step end and joins the thread: blocks, at most `timeout_s`."""
        self._stop(f"the model {self.name} is shutting down")
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _line_up(
        self,
        pending: Pending[Req, Res],
        priority: Priority,
        audio_s: float,
        group: Hashable,
        exclusive: Hashable,
        share: Share,
        since_s: float | None,
    ) -> int:
        with self._changed:
            if outage := self.outage():
                raise outage
            item = Waiting(self._next_id, priority, audio_s, monotonic(), group, exclusive, since_s, share)
            self._next_id += 1
            if overloaded := self._batcher.add(item):
                raise overloaded
            self._pending[item.id] = pending
            self._wake_if_due()
        return item.id

    def _drop(self, item_id: int) -> None:
        with self._changed:
            if self._batcher.cancel(item_id):
                del self._pending[item_id]
        self._room.freed()

    def _drop_if_cancelled(self, item_id: int, answer: "Future[Res]") -> None:
        if answer.cancelled():
            self._drop(item_id)

    def _crowd(self) -> int:
        """How many may wait at once: nobody else can join a step once so many do."""
        return max(self.population, len(self._batcher) + self._coming)

    def _wake_if_due(self) -> None:
        """Wakes the sleeping thread only when it has reason to: switching threads for each request costs more."""
        if self._sleeping_until is not None:
            due = self._batcher.next_timer(self._crowd())
            if due is not None and due < self._sleeping_until:
                self._sleeping_until = None
                self._changed.notify()

    def _own(self) -> None:
        try:
            began = monotonic()
            for warm_up in takewhile(lambda _: self._stopped is None, self._warm_up):
                warm_up()
            self._warmup_s = monotonic() - began
            self._warm.set()
            while (batch := self._gather()) is not None:
                if batch:
                    self._run(batch)
                else:
                    self._try_out()
        except BaseException as error:  # noqa: BLE001 - the thread's edge: whatever ended it, nobody may wait for ever
            self._on_error(self.name, error)
        finally:
            self._stop(f"the model {self.name} has stopped")
            self._fail(list(self._pending.values()), self._unavailable)
            del self._on_step, self._warm_up  # who still has the replica shall not keep the engine
            self._steps.close()
            self._trials.close()

    def _gather(self) -> tuple[Waiting, ...] | None:
        """Sleeps until a batch is due, or, with an empty one, a trial; None when the replica was stopped."""
        with self._changed:
            while not self._stopped:
                now = monotonic()
                if self._trials.due(now):
                    return ()
                if batch := self._batcher.take(now, self._crowd()):
                    return batch
                timers = (self._batcher.next_timer(self._crowd()), self._trials.next_timer())
                times = [at for at in timers if at is not None]
                self._sleeping_until = min(times, default=inf)
                self._changed.wait(self._sleeping_until - now if times else None)
                self._sleeping_until = None
            return None

    def _try_out(self) -> None:
        """Tells whether the model works; where it does not, nobody waits for it."""
        self._steps.try_out(self._trials.run)
        if self._trials.ejected:
            with self._changed:
                waiting = [self._pending.pop(item.id) for item in self._batcher.take_all()]
            self._fail(waiting, self._failing)

    def _run(self, batch: tuple[Waiting, ...]) -> None:
        pending = [self._pending[item.id] for item in batch]
        self._room.freed()  # what runs does not wait any more
        began_s = monotonic()
        out_of_memory = self._steps.run(pending, batch[0].group)
        ended_s = monotonic()
        with self._changed:
            self._batcher.finish(batch)
            limit = self._batcher.limit(batch[0].group, max(item.audio_s for item in batch))
            for item in batch:
                del self._pending[item.id]
            live_asked, live_asked_s = self._batcher.take_asked()
        self._room.freed()
        self._trials.judge([one.error for one in pending], out_of_memory=out_of_memory > 0)
        deliver(pending)
        live = [item for item in batch if item.live]
        if live:
            mean_s = ended_s - sum(item.arrived for item in live) / len(live)
            self._lag_s += LAG_SMOOTHING * (mean_s - self._lag_s)
        self._on_step(
            StepReport(
                name=self.name,
                batch_size=len(batch),
                queue_wait_s=began_s - min(item.arrived for item in batch),
                step_s=ended_s - began_s,
                audio_s=sum(item.audio_s for item in batch),
                failed=sum(one.error is not None for one in pending),
                live=len(live),
                lag_s=max((ended_s - item.arrived for item in live if item.exclusive is not None), default=None),
                batch_limit=limit,
                out_of_memory=out_of_memory,
                live_asked=live_asked,
                live_asked_s=live_asked_s,
            )
        )

    def _shrink(self, group: Hashable, size: int) -> None:
        with self._changed:
            self._batcher.shrink(group, size)

    def _stop(self, why: str) -> None:
        """Takes no more, fails what waits and lets the thread end after its step."""
        with self._changed:
            self._stopped = self._stopped or why
            waiting = [self._pending.pop(item.id) for item in self._batcher.take_all()]
            self._changed.notify_all()
        self._fail(waiting, self._unavailable)
        self._warm.set()

    def _fail(self, pending: list[Pending[Req, Res]], error: Callable[[], StreamScribeError]) -> None:
        """Each gets an error of its own, as one that is raised holds its raiser's frames."""
        for one in pending:
            one.error = error()
        deliver(pending)
        self._room.freed()

    def _unavailable(self) -> ModelUnavailable:
        return ModelUnavailable(self._stopped)

    def _stall(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self.name} does not answer", retry_after_s=RETRY_S)

    def _failing(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self.name} fails", retry_after_s=RETRY_S)

    def _no_memory(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self.name} has too little memory", retry_after_s=RETRY_S)
