"""Keeps a generation loop under the books of a continuous batch: builds it, mends it when it breaks, tries it out.

transformers ends its loop at any error of a step, which may come from one request or from a device that ran out of
memory for a moment. So the loop is no more than a part that is replaced.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import monotonic

import numpy as np

from streamscribe.core.batching import Batcher, Priority, Waiting
from streamscribe.core.errors import InternalError, ModelUnavailable, StreamScribeError
from streamscribe.models.funasr_torch.continuous_batch import ContinuousBatch
from streamscribe.models.funasr_torch.continuous_parity import check_parity
from streamscribe.models.funasr_torch.continuous_report import Reports
from streamscribe.models.funasr_torch.continuous_request import Asked
from streamscribe.models.funasr_torch.generation_loop import Capacity, GenerationLoop
from streamscribe.models.funasr_torch.nano_dialogue import NanoDialogue
from streamscribe.models.funasr_torch.nano_modules import NanoModules
from streamscribe.models.funasr_torch.virtual_embedding import VirtualEmbedding, with_embedding
from streamscribe.models.out_of_memory import is_out_of_memory
from streamscribe.models.ports import DecodeRequest, Hypothesis
from streamscribe.models.replica import RETRY_S
from streamscribe.models.trials import Trials

_STOP_S = 5.0
_MEND_S = 60.0
"""How long the step of a loop that cannot be trusted may go on; one that broke has no step."""
_TRIAL_ROWS = 12


class Supervisor:
    """All methods are called in the event loop of the thread that owns the language model.

    When the loop breaks, a new one writes those that were in it one by one, and then those that wait; who breaks a loop
    alone gets a ModelUnavailable. Where memory ran out, fewer are written side by side from then on. Too many such
    failures in a row, or one for want of memory, call for a trial: a short text that is written alone. One that fails
    fails all that waits, and trials are repeated until one succeeds (`core.health`).
    """

    def __init__(
        self,
        name: str,
        parts: NanoModules,
        capacity: Capacity,
        batcher: Batcher,
        reports: Reports,
        trials: Trials,
        *,
        forget: Callable[[Asked], object],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        self._name = name
        self._parts = parts
        self._capacity = capacity
        self._trials = trials
        self._on_error = on_error
        self._dialogue = NanoDialogue(parts)
        self._embedding = VirtualEmbedding(parts.language_model.get_input_embeddings(), capacity.rows)
        self._model = with_embedding(parts.language_model, self._embedding)
        self._generation: GenerationLoop | None = None
        self._defect: BaseException | None = None
        self._forget = forget
        self._wake = asyncio.Event()
        self._ended = False
        self._trial: Asked | None = None
        self._trial_ids = count(-1, -1)
        self.batch = ContinuousBatch(self._dialogue, self._embedding, batcher, capacity, reports, self)
        """The books; they admit nobody before `begin` has returned."""

    async def begin(self) -> None:
        """Builds the loop and writes two texts; raises what keeps it from computing as the language model does."""
        self._generation = generation = self._built()
        await check_parity(self._parts.language_model, self._dialogue, self._embedding, generation)
        self.batch.go_on(generation)

    async def run(self) -> None:
        """Mends and tries out, until `end`; raises what keeps a loop from being built."""
        while True:
            await self._woken()
            if self._ended:
                return
            if self._broken:
                self._mend()
            if self._trial is None and self._trials.due(monotonic()):
                self._try_out()
            if self._generation is None and self._wanted:
                self._generation = self._built()
                self.batch.go_on(self._generation)

    def end(self) -> None:
        """Has `run` return."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """Ends the loop and gives its memory back; blocks for its step."""
        if self._generation is not None:
            self._generation.stop(_STOP_S)
            self._generation = None

    def look(self) -> None:
        """Sees to the loop, should it have ended without telling anybody."""
        if self._broken:
            self._wake.set()

    def broke(self, defect: BaseException | None = None) -> None:
        """The loop has ended, or cannot be trusted any more for a `defect`."""
        if self._generation is not None:
            self._defect = self._defect or defect
            self._wake.set()

    def forget(self, asked: Asked) -> None:
        """A request holds nothing any more."""
        self._forget(asked)

    def answered(self) -> None:
        """A request got its text: the loop works."""
        self._trials.judge([None], out_of_memory=False)

    def failed(self, error: BaseException) -> StreamScribeError:
        """A request failed alone; what it is told."""
        self._on_error(self._name, error)
        short = is_out_of_memory(error)
        told = self._no_memory() if short else InternalError()
        self._judge(told, short=short)
        return told

    @property
    def _broken(self) -> bool:
        generation = self._generation
        return generation is not None and (self._defect is not None or not generation.accepts)

    @property
    def _wanted(self) -> bool:
        """Whether there is anybody to write for: nobody but a trial while trials fail."""
        return not self._trials.ejected if self._trial is None else not self._trial.settled

    def _built(self) -> GenerationLoop:
        generation = GenerationLoop(self._model, self._dialogue.ends, self._capacity)
        generation.start()
        return generation

    async def _woken(self) -> None:
        """Returns when something has changed or a trial is due."""
        at = self._trials.next_timer() if self._trial is None else None
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at is None else max(0.0, at - monotonic())):
                await self._wake.wait()
        self._wake.clear()

    def _mend(self) -> None:
        """Lets go of a loop that has ended, and of all that was in it."""
        generation, defect = self._generation, self._defect
        self._generation = self._defect = None
        if generation is None:
            return
        generation.stop(_MEND_S)
        if generation.alive:
            raise RuntimeError("a generation loop does not end")  # and may read rows that the next one would overwrite
        error = generation.failure or defect or RuntimeError("the generation loop has ended")
        self._on_error(self._name, error)
        short = is_out_of_memory(error)
        # The frames of its traceback hold the keys and values of the old loop, and the next one needs the room.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        del generation, error, defect
        gc.collect()
        if not self.batch.company:
            self._judge(self._broken_off(), short=short)
        self.batch.lose(self._no_memory if short else self._broken_off, short=short)

    def _try_out(self) -> None:
        """Has a text written alone; nobody else is admitted before it has ended."""
        loop = asyncio.get_running_loop()
        wave = np.sin(np.arange(_TRIAL_ROWS * self._embedding.width, dtype=np.float32)).reshape(_TRIAL_ROWS, -1)
        answer: asyncio.Future[Hypothesis] = loop.create_future()
        answer.add_done_callback(self._tried)
        item = Waiting(next(self._trial_ids), Priority.URGENT, 0.0, monotonic())
        self._trial = Asked(item, DecodeRequest(wave, 0), answer, loop)
        self.batch.try_out(self._trial)

    def _tried(self, answer: asyncio.Future[Hypothesis]) -> None:
        self._trial = None
        self._trials.tried(answer.exception())
        if self._trials.ejected:
            self.batch.fail_waiting(self._failing)
        self._wake.set()

    def _judge(self, told: StreamScribeError, *, short: bool) -> None:
        self._trials.judge([told], out_of_memory=short)
        self._wake.set()

    def _broken_off(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self._name} has failed and begins anew", retry_after_s=RETRY_S)

    def _failing(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self._name} fails", retry_after_s=RETRY_S)

    def _no_memory(self) -> ModelUnavailable:
        return ModelUnavailable(f"the model {self._name} has too little memory", retry_after_s=RETRY_S)
