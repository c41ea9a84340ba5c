"""Fun-ASR-Nano's language model in continuous batches: a request joins whatever is being written, and leaves when done.

A prompt is token ids, in which virtual ones stand for the audio's rows (`virtual_embedding`); transformers' manager
(`generation_loop`) writes all texts side by side in a thread of its own. Tokens are those of `generate`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any

import torch

from streamscribe.core.batching import OVERLOAD_RETRY_S, Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import ModelUnavailable, Overloaded
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.models.funasr_torch.continuous_report import Reports
from streamscribe.models.funasr_torch.continuous_request import Asked
from streamscribe.models.funasr_torch.continuous_supervisor import Supervisor
from streamscribe.models.funasr_torch.generation_loop import Capacity, check_transformers
from streamscribe.models.funasr_torch.nano_modules import NanoModules
from streamscribe.models.ports import DecodeRequest, Hypothesis
from streamscribe.models.replica import RETRY_S, StepReport
from streamscribe.models.stage import THREAD_PREFIX
from streamscribe.models.trials import Trials


class ContinuousDecoder:
    """A language model stage like `models.replica.Replica`, but a request waits for no batch and no batch for it.

    Owns the language model of `parts`, and a thread with an event loop in which all books are kept. What finds no
    room in `capacity` waits as `policy` says. A failed or cancelled request leaves its company alone.

    Where a step fails, a new manager writes all that were in it one by one, so that only the guilty request fails;
    after `max_failures` such in a row, or one for want of memory, it is tried out, and while trials fail it takes
    nothing (`continuous_supervisor`).

    `on_step` hears of as many ended requests at a time as run side by side. `on_error` hears of what failed, of what
    ended the thread, after which there is an outage for good, and, by `fail_if_stalled`, of a manager that wrote
    nothing for `step_timeout_s`. `on_ejected` hears why it is not ready any more.
    """

    def __init__(
        self,
        name: str,
        parts: NanoModules,
        *,
        policy: BatchPolicy,
        on_step: Callable[[StepReport], None],
        capacity: Capacity | None = None,
        on_error: Callable[[str, BaseException], None] = lambda name, error: None,
        step_timeout_s: float = inf,
        max_failures: int = 5,
        on_ejected: Callable[[str, str], None] = lambda name, cause: None,
    ) -> None:
        """Raises ModelUnavailable where the installed transformers is too old."""
        check_transformers()
        self.name = name
        self.policy = policy
        """What may wait; how many run side by side is the capacity's affair."""
        self._parts = parts
        self._capacity = capacity or Capacity()
        self._reports = Reports(name, self._capacity.requests, on_step)
        self._on_error = on_error
        self._on_ejected = on_ejected
        self._trials = Trials(
            name, None, max_failures=max_failures, retry_s=RETRY_S, on_error=on_error, on_ejected=on_ejected
        )
        self._step_timeout_s = step_timeout_s
        self._batcher = Batcher(
            BatchPolicy(
                max_batch_size=1,
                wait_ms=0.0,
                max_waiting_s=policy.max_waiting_s,
                max_inflight=policy.max_inflight,
                aging_s=policy.aging_s,
            )
        )
        self._supervisor: Supervisor | None = None
        self._stall_told = False
        self._lock = threading.Lock()
        self._asked: dict[int, Asked] = {}
        self._next_id = 0
        self._early: list[Asked] = []
        self._stopped: str | None = None
        self._warm = threading.Event()
        self._warmup_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._own, name=THREAD_PREFIX + name, daemon=True)

    @property
    def ready(self) -> bool:
        """Whether it is warm, its thread lives, the manager does not hang, and what it writes succeeds."""
        return self._warm.is_set() and self.outage() is None and self._trials.ready

    @property
    def stalled(self) -> bool:
        """Whether the manager has work and wrote nothing for longer than the timeout."""
        supervisor = self._supervisor
        return supervisor is not None and monotonic() - supervisor.batch.silent_since_s > self._step_timeout_s

    @property
    def inflight(self) -> int:
        """Requests that wait or are written."""
        return len(self._asked)

    @property
    def warmup_s(self) -> float:
        """How long the warm-up took; 0 before its end."""
        return self._warmup_s

    def outage(self) -> ModelUnavailable | None:
        """Why it would take no request now."""
        if self._stopped is not None:
            return self._unavailable()
        if self._trials.ejected:
            return ModelUnavailable(f"the model {self.name} fails", retry_after_s=RETRY_S)
        return self._stall() if self.stalled else None

    def start(self) -> None:
        """Starts the threads and returns; requests submitted during the warm-up wait for its end."""
        self._thread.start()

    def wait_ready(self) -> None:
        """Blocks until the warm-up is over; raises ModelUnavailable when it failed."""
        self._warm.wait()
        if self._stopped is not None:
            raise self._unavailable()

    async def submit(
        self,
        request: DecodeRequest,
        *,
        priority: Priority,
        audio_s: float,
        share: Share = NOBODYS,
        since_s: float | None = None,
    ) -> Hypothesis:
        """The text of one request, with the mean probability of its tokens as confidence; empty for silence.

        With `since_s` it stands in line as if it had come then (`time.monotonic`). Cancelling takes it out of its
        company. Raises Overloaded over the policy's bounds, ModelUnavailable when the manager hangs or failed while it
        wrote this, BadRequest for a language that is not known and for hot words that have no room, and InternalError
        for an embedding that is not this model's and for what failed alone.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if outage := self.outage():
                raise outage
            if self.inflight >= self.policy.max_inflight:
                raise Overloaded(retry_after_s=OVERLOAD_RETRY_S)
            item = Waiting(self._next_id, priority, audio_s, monotonic(), since=since_s, share=share)
            self._next_id += 1
            asked = self._asked[item.id] = Asked(item, request, loop.create_future(), loop)
        self._call(self._arrive, asked)
        try:
            return await asked.future
        except asyncio.CancelledError:
            self._call(self._cancel, asked)
            raise

    def fail_if_stalled(self) -> None:
        """Fails all that waits for a manager that hangs, and sees to one that has ended; for a watchdog, from any
        thread."""
        if not self.stalled:
            self._stall_told = False
            self._call(self._look)
        else:
            told, self._stall_told = self._stall_told, True
            if not told:
                self._on_error(self.name, self._stall())
                self._on_ejected(self.name, "stalled")
            self._call(self._fail_all)

    def close(self, timeout_s: float = 10.0) -> None:
        """Fails what waits and what is written, and joins the threads: blocks, at most `timeout_s`."""
        self._stop(f"the model {self.name} is shutting down")
        self._warm.set()  # nobody waits for a warm-up that is of no more use
        if self._thread.ident is None:
            self._loop.close()
        else:
            self._thread.join(timeout_s)

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        """Has it called in the owner's thread, as long as that lives."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return  # the loop is closed, and nothing waits any more

    def _own(self) -> None:
        try:
            with torch.inference_mode(), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._run())
        except BaseException as error:  # noqa: BLE001 - the thread's edge: whatever ended it, nobody may wait for ever
            self._on_error(self.name, error)
        finally:
            self._stop(f"the model {self.name} has stopped")
            self._warm.set()

    async def _run(self) -> None:
        """The manager's life; its thread has this one's inference mode, and ends with the process as this one does."""
        self._loop.set_exception_handler(self._unexpected)
        began = monotonic()
        supervisor = Supervisor(
            self.name,
            self._parts,
            self._capacity,
            self._batcher,
            self._reports,
            self._trials,
            forget=self._forget,
            on_error=self._on_error,
        )
        try:
            await supervisor.begin()
            self._warmup_s = monotonic() - began
            self._supervisor = supervisor
            self._warm.set()
            for asked in self._early:
                self._arrive(asked)
            if self._stopped is None:
                await supervisor.run()
        finally:
            self._stop(f"the model {self.name} has stopped")
            self._supervisor = None
            supervisor.close()

    def _arrive(self, asked: Asked) -> None:
        if self._supervisor is None:
            self._early.append(asked)
        else:
            self._supervisor.batch.arrive(asked)

    def _cancel(self, asked: Asked) -> None:
        if self._supervisor is None:
            asked.settled = True
        else:
            self._supervisor.batch.cancel(asked)

    def _fail_all(self) -> None:
        if self._supervisor is not None:
            self._supervisor.batch.fail_all(self._stall)

    def _end(self) -> None:
        if self._supervisor is not None:
            self._supervisor.end()

    def _look(self) -> None:
        if self._supervisor is not None:
            self._supervisor.look()

    def _forget(self, asked: Asked) -> None:
        self._asked.pop(asked.item.id, None)

    def _unexpected(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A defect of ours in a callback, whose request would wait for ever."""
        self._on_error(self.name, context.get("exception") or RuntimeError(context["message"]))
        self._stop(f"the model {self.name} has stopped")

    def _stop(self, why: str) -> None:
        """Takes no more, fails all, and lets the threads end; the first reason counts."""
        with self._lock:
            self._stopped = self._stopped or why
            lost = list(self._asked.values())
            self._asked.clear()
        for asked in lost:
            if not asked.settled:
                asked.settle(self._unavailable())
        self._call(self._end)

    def _unavailable(self) -> ModelUnavailable:
        return ModelUnavailable(self._stopped or f"the model {self.name} has stopped")

    def _stall(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self.name} does not answer", retry_after_s=RETRY_S)
