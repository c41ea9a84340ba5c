"""The books of a continuous batch: who waits for room, who is being written, who is leaving."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic

from streamscribe.core.batch_limit import BatchLimits
from streamscribe.core.batching import Batcher
from streamscribe.core.errors import AudioTooLong, BadRequest, StreamScribeError
from streamscribe.models.funasr_torch.continuous_report import Reports
from streamscribe.models.funasr_torch.continuous_request import Asked, Keeper, Writing
from streamscribe.models.funasr_torch.generation_loop import Capacity, GenerationLoop, Written
from streamscribe.models.funasr_torch.nano_dialogue import NanoDialogue
from streamscribe.models.funasr_torch.virtual_embedding import VirtualEmbedding
from streamscribe.models.guards import loop_start
from streamscribe.models.ports import Hypothesis


class ContinuousBatch:
    """All methods are called in the event loop of the thread that owns the language model.

    Room (pages of keys and values, rows of the table, places side by side) is held from admission until the manager
    has let go; each request that arrived is forgotten once, when it holds none any more. The most urgent is admitted
    first, and passed by nobody, so that long prompts get their room too. Nobody is admitted while there is no loop.

    Who was in company in a loop that broke is written again, alone, and fails if that breaks the loop too (law 8).
    """

    def __init__(
        self,
        dialogue: NanoDialogue,
        embedding: VirtualEmbedding,
        batcher: Batcher,
        capacity: Capacity,
        reports: Reports,
        keeper: Keeper,
    ) -> None:
        """Begins without a loop."""
        self._dialogue = dialogue
        self._generation: GenerationLoop | None = None
        self._embedding = embedding
        self._batcher = batcher
        self._capacity = capacity
        self._limits = BatchLimits(capacity.requests)
        self._reports = reports
        self._keeper = keeper
        self._pages = capacity.pages
        self._waiting: dict[int, Writing] = {}
        self._first: Writing | None = None
        self._alone: deque[Writing] = deque()
        """Who is to be written with nobody beside it; the first of them may be running."""
        self._running: dict[int, Writing] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._progress_s = inf

    @property
    def silent_since_s(self) -> float:
        """When the manager last wrote or got its first request; `inf` where it has none. From any thread."""
        return self._progress_s if self._running else inf

    @property
    def company(self) -> bool:
        """Whether several are in the loop."""
        return len(self._running) > 1

    def arrive(self, asked: Asked) -> None:
        """Lets a request wait for room, or answers at once: silence, and what could never be written."""
        request = asked.request
        if asked.settled:
            self._keeper.forget(asked)
            return
        try:
            if request.silent or not len(request.embedding):
                self._done(asked, Hypothesis("", request.language, punctuated=True))
                return
            writing = Writing(asked, self._dialogue.prompt(request), [])
            if len(request.embedding) > self._capacity.rows:
                raise AudioTooLong("a segment is longer than the language model has room for")
            if writing.pages > self._capacity.pages:
                raise BadRequest("hot words are longer than the language model has room for", field="hotwords")
            if overloaded := self._batcher.add(asked.item):
                raise overloaded
        except StreamScribeError as error:
            self._done(asked, error.with_traceback(None))  # which would keep the embedding alive
            return
        self._waiting[asked.item.id] = writing
        self._admit()

    def cancel(self, asked: Asked) -> None:
        """Nobody waits for the answer any more."""
        if asked.settled:
            return
        asked.settled = True
        if asked.item.id in self._running:
            self._leave(self._running[asked.item.id])
        elif writing := next((one for one in self._alone if one.asked is asked), None):
            self._alone.remove(writing)
            self._batcher.finish((asked.item,))
            self._keeper.forget(asked)
            self._admit()
        elif self._waiting.pop(asked.item.id, None) is not None:
            if not self._batcher.cancel(asked.item.id):
                self._first = None
                self._batcher.finish((asked.item,))
            self._keeper.forget(asked)
            self._admit()

    def fail_waiting(self, error: Callable[[], StreamScribeError]) -> None:
        """Each that waits gets an error of its own."""
        for writing in [one for one in self._alone if not one.trial and one.asked.item.id not in self._running]:
            self._alone.remove(writing)
            self._batcher.finish((writing.asked.item,))
            self._done(writing.asked, error())
        self._batcher.take_all()
        if self._first is not None:
            self._batcher.finish((self._first.asked.item,))
            self._first = None
        for writing in self._waiting.values():
            self._done(writing.asked, error())
        self._waiting.clear()

    def fail_all(self, error: Callable[[], StreamScribeError]) -> None:
        """Each that waits or is written gets an error of its own."""
        self.fail_waiting(error)
        for writing in self._running.values():
            if not writing.asked.settled:
                writing.asked.settle(error())
                self._leave(writing)

    def lose(self, error: Callable[[], StreamScribeError], *, short: bool) -> None:
        """The loop has ended, and all room is free. Who was alone in it gets the error; who had company is to be
        written alone, for it is not known yet who is guilty. Who waits goes on waiting.

        Where memory ran `short`, fewer are written side by side from now on.
        """
        self._generation = None
        for task in self._leaving:
            task.cancel()
        lost = list(self._running.values())
        if short and lost:
            self._limits.shrink(None, len(lost))
            self._reports.ran_out_of_memory()
        for writing in lost:
            if writing.asked.settled or len(lost) == 1:
                if not writing.asked.settled:
                    writing.asked.settle(error())
                self._release(writing)
            else:
                self._free(writing)
                # Another object, for the old loop's last words on this one may still be under way.
                self._alone.append(Writing(writing.asked, writing.prompt, []))

    def go_on(self, generation: GenerationLoop) -> None:
        """There is a loop, with nobody in it."""
        self._generation = generation
        self._admit()

    def try_out(self, asked: Asked) -> None:
        """Writes a request of the keeper's as soon as nobody else is written, and nobody beside it."""
        begun = bool(self._alone) and self._alone[0].asked.item.id in self._running
        self._alone.insert(int(begun), Writing(asked, self._dialogue.prompt(asked.request), [], trial=True))
        self._admit()

    def _admit(self) -> None:
        """Gives room to as many of those who wait as there is."""
        while (writing := self._next()) is not None and self._generation is not None and self._generation.accepts:
            self._begin(writing, self._generation)

    def _next(self) -> Writing | None:
        """Who is to be written now, if anybody: who is to be alone when it is, else the first in line when it has
        room."""
        if self._alone:
            return None if self._running else self._alone[0]
        writing = self._first_in_line()
        return writing if writing is not None and self._has_room(writing) else None

    def _first_in_line(self) -> Writing | None:
        if self._first is None and (batch := self._batcher.take(monotonic(), 0)):
            self._first = self._waiting[batch[0].id]
        return self._first

    def _has_room(self, writing: Writing) -> bool:
        enough = writing.pages <= self._pages and writing.prompt.rows <= self._embedding.free
        return enough and len(self._running) < self._limits.of(None)

    def _begin(self, writing: Writing, generation: GenerationLoop) -> None:
        now, item, prompt = monotonic(), writing.asked.item, writing.prompt
        if self._waiting.pop(item.id, None) is not None:
            self._first = None
            self._reports.began(item, now, len(self._running) + 1)
        if not self._running:
            self._progress_s = now
        self._running[item.id] = writing
        self._pages -= writing.pages
        writing.rows = self._embedding.hold(writing.asked.request.embedding)
        ids = [*prompt.before, *writing.rows, *prompt.after]
        if not generation.add(str(item.id), ids, prompt.limit, lambda written: self._heard(writing, written)):
            self._keeper.broke()

    def _heard(self, writing: Writing, written: Written) -> None:
        """One token more, or the end; an answer that goes round is ended."""
        if self._running.get(writing.asked.item.id) is not writing:
            return  # a loop told it that has ended
        self._progress_s = monotonic()
        if written.error is not None:
            self._failed(writing, RuntimeError(written.error))
        elif writing.asked.settled:
            return  # it is leaving
        elif written.is_finished():
            self._answer(writing, written)
            self._release(writing)
            self._admit()
        elif loop_start(written.generated_tokens) is not None:
            self._answer(writing, written)
            self._leave(writing)

    def _failed(self, writing: Writing, error: RuntimeError) -> None:
        """The loop could not take a request, or has ended: then its end is seen to, and what was in it."""
        if self._generation is None or not self._generation.accepts:
            self._keeper.broke()
        elif not writing.asked.settled:
            writing.asked.settle(self._keeper.failed(error))
            self._leave(writing)

    def _answer(self, writing: Writing, written: Written) -> None:
        request, tokens = writing.asked.request, written.generated_tokens
        try:
            answer = self._dialogue.answer(request, writing.prompt, tokens, written.logprobs)
        except Exception as error:  # noqa: BLE001 - the tokenizer's edge: it may raise anything
            writing.asked.settle(self._keeper.failed(error))
            return
        self._limits.went_well(None, len(self._running))
        self._keeper.answered()
        writing.asked.settle(answer)

    def _leave(self, writing: Writing) -> None:
        if self._generation is None:
            return
        task = asyncio.get_running_loop().create_task(self._let_go(writing, self._generation))
        self._leaving.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        """Room that was not given back would be missed for ever: where a request could not leave, the loop ends."""
        self._leaving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._keeper.broke(error)

    async def _let_go(self, writing: Writing, generation: GenerationLoop) -> None:
        await generation.cancel(str(writing.asked.item.id))
        if generation is self._generation and generation.accepts:  # else it is lost with all others
            self._release(writing)
            self._admit()

    def _release(self, writing: Writing) -> None:
        """The loop reads nothing of it any more."""
        item = writing.asked.item
        self._free(writing)
        if not writing.trial:
            self._batcher.finish((item,))
            asked, failed = self._batcher.take_asked, writing.asked.failed
            self._reports.ended(item, monotonic(), len(self._running), asked, failed=failed)
        self._keeper.forget(writing.asked)

    def _free(self, writing: Writing) -> None:
        del self._running[writing.asked.item.id]
        if self._alone and self._alone[0] is writing:
            self._alone.popleft()
        self._embedding.give_back(writing.rows)
        self._pages += writing.pages

    def _done(self, asked: Asked, answer: Hypothesis | StreamScribeError) -> None:
        asked.settle(answer)
        self._keeper.forget(asked)
