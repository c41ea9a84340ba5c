"""The books of a continuous batch: who waits for room, who is being written, who is leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from time import monotonic

from streamscribe.core.batching import Batcher, Waiting
from streamscribe.core.errors import AudioTooLong, BadRequest, StreamScribeError
from streamscribe.models.funasr_torch.continuous_report import Reports
from streamscribe.models.funasr_torch.generation_loop import PAGE_TOKENS, Capacity, GenerationLoop, Written
from streamscribe.models.funasr_torch.nano_dialogue import NanoDialogue, Prompt
from streamscribe.models.funasr_torch.virtual_embedding import VirtualEmbedding
from streamscribe.models.guards import loop_start
from streamscribe.models.ports import DecodeRequest, Hypothesis


@dataclass(slots=True, eq=False)
class Asked:
    """One request from its arrival until the language model has let go of it, and where its answer goes."""

    item: Waiting
    request: DecodeRequest
    future: asyncio.Future[Hypothesis]
    loop: asyncio.AbstractEventLoop
    settled: bool = False
    failed: bool = False

    def settle(self, answer: Hypothesis | StreamScribeError) -> None:
        """Hands the answer to who asked, the first one only; from any thread."""
        self.settled = True
        self.failed = isinstance(answer, StreamScribeError)
        try:
            self.loop.call_soon_threadsafe(_settle, self.future, answer)
        except RuntimeError:
            return  # that loop is closed: nobody waits there


@dataclass(slots=True, eq=False)
class _Writing:
    """A request with its prompt, and the ids of the rows that it holds while it is written."""

    asked: Asked
    prompt: Prompt
    rows: list[int]

    @property
    def pages(self) -> int:
        """Pages of keys and values that its prompt and the longest answer need."""
        return ceil(self.prompt.tokens / PAGE_TOKENS)


class ContinuousBatch:
    """All methods are called in the event loop of the thread that owns the language model.

    Room (pages of keys and values, rows of the table, places side by side) is held from admission until the manager
    has let go; each request that arrived is forgotten once, when it holds none any more. The most urgent is admitted
    first, and passed by nobody, so that long prompts get their room too.
    """

    def __init__(
        self,
        dialogue: NanoDialogue,
        generation: GenerationLoop,
        embedding: VirtualEmbedding,
        batcher: Batcher,
        capacity: Capacity,
        reports: Reports,
        forget: Callable[[Asked], object],
        died: Callable[[BaseException], object],
    ) -> None:
        """`died` hears of what ends all: an error of the manager's, or one while a request was leaving it."""
        self._dialogue = dialogue
        self._generation = generation
        self._embedding = embedding
        self._batcher = batcher
        self._capacity = capacity
        self._reports = reports
        self._forget = forget
        self._died = died
        self._pages = capacity.pages
        self._waiting: dict[int, _Writing] = {}
        self._first: _Writing | None = None
        self._running: dict[int, _Writing] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._progress_s = inf

    @property
    def silent_since_s(self) -> float:
        """When the manager last wrote or got its first request; `inf` where it has none. From any thread."""
        return self._progress_s if self._running else inf

    def arrive(self, asked: Asked) -> None:
        """Lets a request wait for room, or answers at once: silence, and what could never be written."""
        request = asked.request
        if asked.settled:
            self._forget(asked)
            return
        try:
            if request.silent or not len(request.embedding):
                self._done(asked, Hypothesis("", request.language, punctuated=True))
                return
            writing = _Writing(asked, self._dialogue.prompt(request), [])
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
        elif self._waiting.pop(asked.item.id, None) is not None:
            if not self._batcher.cancel(asked.item.id):
                self._first = None
                self._batcher.finish((asked.item,))
            self._forget(asked)
            self._admit()

    def fail_all(self, error: Callable[[], StreamScribeError]) -> None:
        """Each that waits or is written gets an error of its own."""
        self._batcher.take_all()
        if self._first is not None:
            self._batcher.finish((self._first.asked.item,))
            self._first = None
        for writing in self._waiting.values():
            self._done(writing.asked, error())
        self._waiting.clear()
        for writing in self._running.values():
            if not writing.asked.settled:
                writing.asked.settle(error())
                self._leave(writing)

    def _admit(self) -> None:
        """Gives room to as many of those who wait as there is."""
        while (writing := self._first_in_line()) is not None and self._has_room(writing):
            self._first = None
            del self._waiting[writing.asked.item.id]
            self._begin(writing)

    def _first_in_line(self) -> _Writing | None:
        if self._first is None and (batch := self._batcher.take(monotonic(), 0)):
            self._first = self._waiting[batch[0].id]
        return self._first

    def _has_room(self, writing: _Writing) -> bool:
        enough = writing.pages <= self._pages and writing.prompt.rows <= self._embedding.free
        return enough and len(self._running) < self._capacity.requests

    def _begin(self, writing: _Writing) -> None:
        now, item, prompt = monotonic(), writing.asked.item, writing.prompt
        if not self._running:
            self._progress_s = now
        self._running[item.id] = writing
        self._reports.began(item, now, len(self._running))
        self._pages -= writing.pages
        writing.rows = self._embedding.hold(writing.asked.request.embedding)
        ids = [*prompt.before, *writing.rows, *prompt.after]
        self._generation.add(str(item.id), ids, prompt.limit, lambda written: self._heard(writing, written))

    def _heard(self, writing: _Writing, written: Written) -> None:
        """One token more, or the end; an answer that goes round is ended."""
        self._progress_s = monotonic()
        if written.error is not None:
            self._died(RuntimeError(written.error))
        elif writing.asked.settled:
            return  # it is leaving
        elif written.is_finished():
            self._answer(writing, written)
            self._release(writing)
        elif loop_start(written.generated_tokens) is not None:
            self._answer(writing, written)
            self._leave(writing)

    def _answer(self, writing: _Writing, written: Written) -> None:
        request = writing.asked.request
        writing.asked.settle(self._dialogue.answer(request, writing.prompt, written.generated_tokens, written.logprobs))

    def _leave(self, writing: _Writing) -> None:
        task = asyncio.get_running_loop().create_task(self._let_go(writing))
        self._leaving.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        """Room that was not given back would be missed for ever: a request that could not leave ends all."""
        self._leaving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._died(error)

    async def _let_go(self, writing: _Writing) -> None:
        await self._generation.cancel(str(writing.asked.item.id))
        self._release(writing)

    def _release(self, writing: _Writing) -> None:
        """The manager reads nothing of it any more."""
        item = writing.asked.item
        del self._running[item.id]
        self._embedding.give_back(writing.rows)
        self._pages += writing.pages
        self._batcher.finish((item,))
        self._reports.ended(item, monotonic(), len(self._running), failed=writing.asked.failed)
        self._forget(writing.asked)
        self._admit()

    def _done(self, asked: Asked, answer: Hypothesis | StreamScribeError) -> None:
        asked.settle(answer)
        self._forget(asked)


def _settle(future: asyncio.Future[Hypothesis], answer: Hypothesis | StreamScribeError) -> None:
    if future.done():
        return
    if isinstance(answer, StreamScribeError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
