"""The first pass: a segment's frames stream through a model while it is open, and its text is final at its end."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import numpy as np

from streamscribe.core.audio import to_samples
from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.latency import chunk_ms
from streamscribe.core.options import Latency, SessionOptions
from streamscribe.core.tokens import Detokenizer, Token, join
from streamscribe.models.pool import FirstPass as Engine
from streamscribe.models.ports import FRAME_SHIFT_SAMPLES, ChunkRequest, Frames, Hypothesis, HypothesisWord, frame_count
from streamscribe.text.timed import shown_words
from streamscribe.worker.carry import Carry, Turn
from streamscribe.worker.finish import NO_MARKS, NOBODY_SPOKE, Finisher, words_of
from streamscribe.worker.line import Line, Place
from streamscribe.worker.segment import Segment, StreamTools, audio_priority, final_priority, seconds
from streamscribe.worker.teller import Teller
from streamscribe.worker.track import frame_at

MAX_WAITING = 4
"""Chunks of a segment that may wait for the one that is in a step; with more, the session reads no more audio."""


@dataclass(frozen=True, slots=True)
class _End:
    """How a segment ended, its final's place, and its turn among those whose texts go on."""

    closed: SegmentClosed
    place: Place
    turn: Turn | None


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """The next frames of a stream, and the sample after the last one that they hear; the last chunk has `end`."""

    frames: Frames
    heard: int
    end: _End | None = None


@dataclass(slots=True, eq=False)
class _Run:
    """One segment's stream. `fed` is its first frame that no chunk has yet, `safe` the sample before any cut."""

    segment: Segment
    engine: Engine
    state: object
    chunk_frames: int
    fed: int
    safe: int
    text: Detokenizer = field(default_factory=Detokenizer)
    tokens: list[Token] = field(default_factory=list)
    settled: int = 0
    key: object = field(default_factory=object)  # what a replica may hold for a while after the run is gone
    chunks: asyncio.Queue[_Chunk] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))

    def take(self, tokens: tuple[Token, ...]) -> None:
        """What came out of a chunk."""
        self.tokens += tokens
        self.text.add(tokens)
        if self.tokens and self.segment.audio_start + self.tokens[-1].start < self.safe:
            self.settled = len(self.text.text)


class FirstPass:
    """The first pass of one session: each segment streams apart, its chunks in order and one at a time.

    Partials grow with the tokens; one that is overtaken by its segment's next chunk is not told, so that fewer are told
    while the machine is short. At the end the last chunk goes ahead of others', with `tail_padding_ms` of what follows
    or else of silence, and the text of what was said before the end is the final.

    A step that fails ends the pass for that segment. In the last pass that fails the session; else no first final is
    told, and the pass that follows tells the text.
    """

    def __init__(
        self,
        options: SessionOptions,
        tools: StreamTools,
        tasks: asyncio.TaskGroup,
        teller: Teller,
        finisher: Finisher,
        line: Line,
    ) -> None:
        self._options = options
        self._tools = tools
        self._tasks = tasks
        self._teller = teller
        self._finisher = finisher
        self._line = line
        self._carry = Carry(tools.context_ttl_s)
        self._is_last = options.mode.last_pass == 1
        self._loop = asyncio.get_running_loop()
        self._open: dict[Segment, _Run] = {}
        self._unheard: set[_Chunk] = set()

    @property
    def steps(self) -> frozenset[object]:
        """The chunks that are in a step, or wait for it, and the last ones until their finals are told."""
        return frozenset(self._unheard)

    def opened(self, segment: Segment) -> None:
        """Opens the segment's stream."""
        engine = segment.models.first_pass
        if engine is None:
            raise AssertionError("this pass is of sessions whose models have one")
        length_ms = self._chunk_ms(engine)
        run = _Run(
            segment,
            engine,
            engine.recognizer.open(length_ms),
            chunk_frames=to_samples(length_ms) // FRAME_SHIFT_SAMPLES,
            fed=frame_at(segment.audio_start),
            safe=segment.safe,
        )
        if not self._is_last:
            segment.first_final = self._loop.create_future()
        self._open[segment] = run
        self._tasks.create_task(self._recognise(run))

    async def heard(self) -> None:
        """Feeds the chunks that are full now; waits while too many wait."""
        for run in self._open.values():
            while run.segment.track.known_frames >= run.fed + run.chunk_frames:
                frames = self._next(run)
                await self._feed(run, _Chunk(frames, run.fed * FRAME_SHIFT_SAMPLES))

    async def closed(self, segment: Segment, closed: SegmentClosed) -> None:
        """Feeds what is left of the segment."""
        await self._line.room()
        run = self._open.pop(segment)
        end = _End(closed, self._line.join(), self._carry.turn(segment))
        rest = await self._rest(run, closed)
        while len(rest) > run.chunk_frames:
            await self._feed(run, _Chunk(rest[: run.chunk_frames], closed.end))
            rest = rest[run.chunk_frames :]
        await self._feed(run, _Chunk(rest, closed.end, end))

    def caught_up(self) -> None:
        """Nothing waits for company here."""

    async def _feed(self, run: _Run, chunk: _Chunk) -> None:
        self._unheard.add(chunk)
        await run.chunks.put(chunk)

    def _chunk_ms(self, engine: Engine) -> int:
        options, adaptive = self._options, self._tools.chunk
        if options.latency is Latency.ADAPTIVE and options.chunk_ms is None and adaptive is not None:
            return adaptive.chunk_ms(engine.replica.lag_s, self._loop.time())
        return chunk_ms(engine.recognizer.chunk_choices_ms, options.latency, options.chunk_ms)

    def _next(self, run: _Run) -> Frames:
        first, run.fed = run.fed, run.fed + run.chunk_frames
        return run.segment.track.cut_frames(first, run.fed)

    async def _rest(self, run: _Run, closed: SegmentClosed) -> Frames:
        """The frames up to the end of the segment's audio and of the padding: of what follows it, else of silence."""
        track = run.segment.track
        tail = to_samples(run.engine.recognizer.tail_padding_ms)
        last = frame_count(max(closed.audio_end, closed.end + tail))
        known = track.cut_frames(run.fed, min(last, track.known_frames))
        missing = last - max(run.fed, track.known_frames)
        if closed.empty or missing <= 0:
            return known
        return np.concatenate([known, await self._tools.silence.of(missing)])

    async def _recognise(self, run: _Run) -> None:
        """Takes a segment's chunks one after the other, to its final."""
        replica = run.engine.replica
        replica.population += 1
        failed = False
        end = None
        try:
            while end is None:
                chunk = await run.chunks.get()
                end = chunk.end
                try:
                    if not failed and (end is None or not end.closed.empty):
                        await self._step(run, chunk)
                except StreamScribeError:
                    if self._is_last:
                        self._tools.observer.segment_failed(self._teller.tenant_id)
                        raise
                    self._tools.observer.first_pass_failed(self._teller.tenant_id)
                    failed = True
                if end is None:
                    self._unheard.discard(chunk)
        finally:
            replica.population -= 1
        final = NOBODY_SPOKE
        if not failed and not end.closed.empty:
            heard = self._heard(run, end.closed)
            marks = await self._finisher.marks(run.segment, heard, end.turn)
            final = await self._finisher.finish(run.segment, end.closed.end, heard, marks or NO_MARKS)
        if end.turn is not None:
            await end.turn.speak(final.heard.text, final.unfinished, end.closed.end)
        if self._is_last:
            run.segment.models.give_back()
        run.segment.first = None if failed else final
        told = None if failed else partial(self._teller.final, run.segment, 1, final, end.closed.end)
        self._line.ready(end.place, partial(_conclude, run.segment, told))
        self._unheard.discard(chunk)

    async def _step(self, run: _Run, chunk: _Chunk) -> None:
        last = chunk.end is not None
        request = ChunkRequest(run.state, chunk.frames, last)
        tokens = await run.engine.replica.submit(
            request,
            priority=(final_priority if last else audio_priority)(self._options),
            audio_s=seconds(len(chunk.frames) * FRAME_SHIFT_SAMPLES),
            group=run.engine.recognizer.group(request),
            exclusive=run.key,
            share=run.segment.share,
            patient=True,
        )
        run.take(tokens)
        if not last and run.tokens and run.chunks.empty():
            await self._tell(run, chunk.heard)

    async def _tell(self, run: _Run, heard_end: int) -> None:
        """A partial of the audio up to `heard_end`: all text is settled but what lies where the segment may be cut."""
        segment = run.segment
        heard = self._hypothesis(run.text.text, run.text.words if self._options.words else (), run.tokens)
        shown = await self._finisher.draft(heard.text, heard.language)
        self._teller.partial(
            segment,
            shown,
            heard_end,
            heard,
            self._loop.time(),
            words=shown_words(heard.text, shown, words_of(heard, segment.audio_start)),
            settled=run.settled,
        )

    def _heard(self, run: _Run, closed: SegmentClosed) -> Hypothesis:
        """All that was said before the end of the segment's audio: what came later is the next segment's."""
        tokens = [token for token in run.tokens if closed.audio_start + token.start < closed.audio_end]
        text, words = join(tokens)
        return self._hypothesis(text, words, tokens)

    def _hypothesis(self, text: str, words: tuple[HypothesisWord, ...], tokens: Sequence[Token]) -> Hypothesis:
        confidence = fmean(token.confidence for token in tokens) if tokens else 0.0
        return Hypothesis(text, self._options.language, confidence, words)


def _conclude(segment: Segment, tell: Callable[[], None] | None) -> None:
    if tell is not None:
        tell()
    if segment.first_final is not None:
        segment.first_final.set_result(None)
