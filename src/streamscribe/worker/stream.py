"""One session: its records in order to voice, segments, partials and finals."""

import asyncio
from collections.abc import Iterable, Sequence

from streamscribe.audio.pcm import PcmReader
from streamscribe.core.audio import to_ms
from streamscribe.core.endpoint import Effect, SegmentClosed, SegmentOpened
from streamscribe.core.intake import DUPLICATE, Intake
from streamscribe.core.integrity import ensure
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Flushed,
    FlushRequested,
    HotwordsUpdated,
    Progress,
    Record,
    SessionOpened,
)
from streamscribe.core.transcript import Transcript
from streamscribe.models.pool import Lease
from streamscribe.models.ports import Origin, Samples
from streamscribe.worker.channel import Channel
from streamscribe.worker.finals import line_of_finals
from streamscribe.worker.passes import passes_of
from streamscribe.worker.recovery import Recovery, beginning
from streamscribe.worker.segment import Emit, Segment, StreamTools, seconds, share_of
from streamscribe.worker.teller import Teller

_PIECES_PER_S = 10
PROGRESS_S = 1.0


class Stream:
    """Hears a session's audio block by block, channel after channel, so that packet sizes change nothing (law 4).

    It begins with the session or at its checkpoint, and then tells all that it would have told later (law 4).
    `tasks` owns its decodes: leaving the group waits for the last final, and one that fails ends the stream. What is
    in memory is bounded by the longest segment, and one more for each pending final (law 7). Raises BadRequest for a
    language that the model does not know.
    """

    def __init__(self, opened: SessionOpened, tools: StreamTools, tasks: asyncio.TaskGroup, emit: Emit) -> None:
        options = opened.options
        if options.language is not None:  # told at once, not at the first final
            tools.models.recognition.current.recognizer.check_language(options.language)
        self.ended = False
        begin = beginning(opened)
        self.channels = [
            Channel(index, opened, tools, emit, point, begin.start) for index, point in enumerate(begin.channels)
        ]
        self._session_id, self._trace_id = opened.session_id, opened.trace_id
        self._share = share_of(opened)
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._intake = Intake[Record](next_sequence=begin.index)
        self._reader = PcmReader(options.audio, begin.start)
        self._skip_bytes = begin.skip_bytes
        self._piece_bytes = options.audio.bytes_per_second // _PIECES_PER_S
        self._hotwords = begin.hotwords
        transcript = Transcript(options.mode.last_pass, begin.segments)
        self._recovery = Recovery(opened, begin, self.channels, transcript, tools.models, emit)
        self._teller = Teller(opened, transcript, begin.sequence, emit, tools.observer, self._recovery.conclude)
        self._models = tools.models
        self._leases: set[Lease] = set()
        self._line = line_of_finals(options, tools)
        self._passes = passes_of(opened, tools, tasks, self._teller, self._line)
        self._arrived_s = self._progress_s = self._loop.time()

    @property
    def leases(self) -> int:
        """How many of its segments hold models."""
        return len(self._leases)

    @property
    def steps(self) -> frozenset[object]:
        """What models of this process may be in a step for, or will be, of records that were handled."""
        return frozenset[object]().union(*(one.steps for one in self._passes))

    def close(self) -> None:
        """Gives back the models of segments that will get no more finals."""
        for lease in list(self._leases):
            lease.give_back()

    @property
    def audio_ms(self) -> int:
        """How much audio was processed."""
        return to_ms(self.channels[0].track.heard)

    async def handle(self, record: Record, arrived_s: float) -> None:
        """Processes the next record, or drops it as a repetition; raises SequenceGap when one is missing."""
        self._arrived_s = arrived_s
        offered = self._intake.offer(record.index, record, 0, arrived_s)
        if isinstance(offered, Exception):
            raise offered
        if offered is DUPLICATE:
            return
        match record:
            case AudioChunk():
                await self._hear_chunk(record)
            case FlushRequested():
                await self._flush(record)
            case HotwordsUpdated():
                self._hotwords = record.hotwords
            case AudioEnded():
                await self._end()

    def caught_up(self) -> None:
        """All records that have come were handled."""
        for one in self._passes:
            one.caught_up()

    async def _hear_chunk(self, chunk: AudioChunk) -> None:
        """Piece by piece, so that a large message does not hold up the event loop."""
        data, size = chunk.data, self._piece_bytes
        skipped, self._skip_bytes = self._skip_bytes, 0
        self._recovery.receive(chunk, self._teller.sequence, self._hotwords)
        for at in range(skipped, len(data), size):
            await self._hear(self._reader.read(data[at : at + size]))
        self._teller.sequence = chunk.sequence

    async def _hear(self, samples: Sequence[Samples]) -> None:
        received = [channel.track.receive(one) for channel, one in zip(self.channels, samples, strict=True)]
        for blocks in zip(*received, strict=True):
            await self._hear_blocks(blocks)
            self._tell_progress()

    async def _hear_blocks(self, blocks: Iterable[Samples], *, last: bool = False) -> None:
        """One block of each channel."""
        await self._line.room()
        for channel, block in zip(self.channels, blocks, strict=True):
            changes = await channel.hear(block, self._arrived_s, last=last)
            if not channel.is_behind:
                await self._advance(channel, channel.endpointer.advance(channel.track.heard, changes), last=last)
            channel.forget()
        for one in self._passes:
            await one.heard()

    async def _flush(self, asked: FlushRequested) -> None:
        """Hears what has come, though it may not fill a block, and closes what is open."""
        blocks = [channel.track.short_block() for channel in self.channels]
        if len(blocks[0]):
            await self._hear_blocks(blocks)
        for channel in self.channels:
            if not channel.is_behind:
                await self._advance(channel, channel.endpointer.flush(channel.track.heard))
        self.caught_up()
        await self._line.room()
        self._line.ready(self._line.join(), lambda: self._emit(Flushed(self._session_id, asked.marker, asked.index)))

    async def _end(self) -> None:
        await self._hear(self._reader.flush())
        await self._hear_blocks([channel.track.last_block() for channel in self.channels], last=True)
        for channel in self.channels:
            ensure(not channel.is_behind, "a channel's point lies within the audio")
            await self._advance(channel, channel.endpointer.end(channel.track.heard), last=True)
        self.caught_up()
        self.ended = True

    async def _advance(self, channel: Channel, effects: Iterable[Effect], *, last: bool = False) -> None:
        """Performs what a block or a flush brought; behind the `last` one nobody can go on."""
        closed = False
        for effect in effects:
            match effect:
                case SegmentOpened():
                    channel.segment = self._open(channel, effect)
                case SegmentClosed():
                    closed = True
                    await self._close(channel, effect)
        if not last:
            self._recovery.heard(channel, closed=closed)

    def _open(self, channel: Channel, opened: SegmentOpened) -> Segment:
        trail = self._recovery.trails[channel.index]
        segment_id = self._teller.transcript.open_segment(channel.index, to_ms(opened.start), trail.next_id)
        trail.open(segment_id)
        models = self._models.lease(self._leases)
        channel.cut_for(models.recognition.recognizer)
        segment = Segment(
            id=segment_id,
            origin=Origin(self._session_id, segment_id, self._trace_id),
            tenant_id=self._teller.tenant_id,
            share=self._share,
            track=channel.track,
            channel=channel.index,
            start=opened.start,
            audio_start=opened.audio_start,
            safe=opened.start + channel.rules.max_segment - channel.rules.cut_search,
            hotwords=self._hotwords,
            models=models,
            voice_began_s=self._when(channel, opened.start),
        )
        for one in self._passes:
            one.opened(segment)
        return segment

    async def _close(self, channel: Channel, closed: SegmentClosed) -> None:
        segment, channel.segment = channel.segment, None
        if segment is None:
            raise AssertionError("what closes was open")
        self._recovery.trails[channel.index].close()
        segment.voice_ended_s = self._when(channel, closed.end)
        for one in self._passes:
            await one.closed(segment, closed)

    def _when(self, channel: Channel, at: int) -> float:
        """When a sample came, by the event loop's clock: so long before the newest, which has just come."""
        return self._arrived_s - seconds(channel.track.heard - at)

    def _tell_progress(self) -> None:
        now_s = self._loop.time()
        if now_s - self._progress_s >= PROGRESS_S:
            self._progress_s = now_s
            self._emit(Progress(self._session_id, self.audio_ms))

    def check_integrity(self) -> None:
        """The equations of all its ledgers; each open segment is an open segment of its channel."""
        self._intake.check_integrity()
        self._teller.transcript.check_integrity()
        self._line.check_integrity()
        self._recovery.check_integrity()
        for channel in self.channels:
            channel.endpointer.check_integrity()
            opened = channel.endpointer.open_segment
            ensure((channel.segment is None) == (opened is None), "a channel's segment is open in its endpointer")
