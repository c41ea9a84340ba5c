"""One channel of a session: its recent audio, its voice, and the segment that is open on it."""

from collections.abc import Sequence

from streamscribe.core.audio import to_ms, to_samples
from streamscribe.core.checkpoint import ChannelPoint
from streamscribe.core.endpoint import Between, Endpointer, EndpointRules
from streamscribe.core.integrity import ensure
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import SessionOpened, SpeechStarted, SpeechStopped
from streamscribe.models.ports import (
    FRAME_SHIFT_SAMPLES,
    Samples,
    SegmentRecognizer,
    VadOptions,
    VadRequest,
    VoiceEvent,
)
from streamscribe.worker.segment import Emit, Segment, StreamTools, audio_priority, seconds, share_of
from streamscribe.worker.track import AudioTrack


class Channel:
    """Hears blocks one after the other and tells when voice begins and ends; `endpointer` makes segments of it.

    Its audio begins at sample `start`, and it goes on at `point`: until then it `is_behind`, and only fills the memory
    of what comes.
    """

    def __init__(
        self, index: int, opened: SessionOpened, tools: StreamTools, emit: Emit, point: ChannelPoint, start: int
    ) -> None:
        self.index = index
        self._options = opened.options
        self._tools = tools
        self.rules = endpoint_rules(opened.options, tools, tools.models.recognition.current.recognizer)
        self.track = AudioTrack(tools.models.vad.block_samples, start)
        begin = Between(point.heard, point.voice_start, point.last_end, point.last_audio_end)
        self.endpointer = Endpointer(self.rules, self.track.quietest, begin)
        self.segment: Segment | None = None
        self._session_id = opened.session_id
        self._vad = tools.models.vad
        self._replica = tools.models.vad_replica
        silence_ms = opened.options.endpoint.silence_ms or tools.settings.silence_ms
        self._state = self._vad.open(VadOptions(silence_ms))
        self._ahead = point if point.heard else None
        self._priority = audio_priority(opened.options)
        self._share = share_of(opened)
        self._key = object()  # what a replica may hold for a while after the channel is gone
        self._emit = emit

    @property
    def is_behind(self) -> bool:
        """Whether what it hears was heard before, and told."""
        return self._ahead is not None

    @property
    def point(self) -> ChannelPoint | None:
        """Where another could go on, once what was said before is told; None while there is no such place."""
        between = self.endpointer.between
        if between is None or self.is_behind:
            return None
        voice = self._vad.point(self._state)
        return ChannelPoint(between.position, voice, between.voice_start, between.last_end, between.last_audio_end)

    @property
    def needed(self) -> int:
        """The first sample that another would need to go on at `point`."""
        return min(self.endpointer.oldest_needed, self.track.heard - self._vad.memory_samples)

    @property
    def reach(self) -> int:
        """How far before the newest sample `needed` may lie where there is a point."""
        lookback = self.rules.lookback + self.rules.preroll
        return max(lookback, self._vad.memory_samples, self.rules.cut_search + self._vad.block_samples)

    def cut_for(self, recognizer: SegmentRecognizer) -> None:
        """The segment that has just begun is for this one: after a swap it may need another tail than those before."""
        self.rules = endpoint_rules(self._options, self._tools, recognizer)
        self.endpointer.follow(self.rules)

    async def hear(self, block: Samples, since_s: float, *, last: bool = False) -> Sequence[VoiceEvent]:
        """What the block, which came at `since_s` (`time.monotonic`), tells of the voice; the track has it then."""
        heard = await self._replica.submit(
            VadRequest(self._state, block, last),
            priority=self._priority,
            audio_s=seconds(len(block)),
            exclusive=self._key,
            share=self._share,
            since_s=since_s,
            patient=True,
        )
        self.track.hold(block, heard.frames)
        if self._ahead is not None:
            self._catch_up(self._ahead)
            return ()
        for change in heard.events:
            event = SpeechStarted if change.started else SpeechStopped
            self._emit(event(self._session_id, self.index, to_ms(change.at)))
        return heard.events

    def _catch_up(self, point: ChannelPoint) -> None:
        ensure(self.track.heard <= point.heard, "blocks end where they ended before")
        if self.track.heard == point.heard:
            self._vad.go_on(self._state, point.voice)
            self._ahead = None

    def forget(self) -> None:
        """Drops the audio that no segment can ask for any more."""
        self.track.forget_before(self.endpointer.oldest_needed)


def endpoint_rules(options: SessionOptions, tools: StreamTools, recognizer: SegmentRecognizer) -> EndpointRules:
    """A session's rules for cutting: its wishes, else the server's; no segment is longer than the recogniser takes.

    A segment is given so much of what follows it as that was measured to need. All lie on the grid of frames, and
    so do segments, whose frames are those of the session then.
    """
    settings, wished = tools.settings, options.endpoint
    preroll, tail = _on_grid(settings.preroll_ms), _on_grid(recognizer.tail_padding_ms)
    longest = recognizer.max_samples - preroll - tail
    max_segment = min(to_samples(wished.max_segment_ms or settings.max_segment_ms), longest)
    min_speech_ms = settings.min_speech_ms if wished.min_speech_ms is None else wished.min_speech_ms
    return EndpointRules(
        max_segment=max_segment - max_segment % FRAME_SHIFT_SAMPLES,
        preroll=preroll,
        tail=tail,
        lookback=tools.models.vad.lookback_samples,
        min_speech=to_samples(min_speech_ms),
    )


def _on_grid(ms: int) -> int:
    """So many milliseconds in samples, up to the next frame."""
    return -(-to_samples(ms) // FRAME_SHIFT_SAMPLES) * FRAME_SHIFT_SAMPLES
