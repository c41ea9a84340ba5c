"""One channel of a session: its recent audio, its voice, and the segment that is open on it."""

from collections.abc import Sequence

from streamscribe.core.audio import to_ms, to_samples
from streamscribe.core.endpoint import Endpointer, EndpointRules
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import SessionOpened, SpeechStarted, SpeechStopped
from streamscribe.models.ports import FRAME_SHIFT_SAMPLES, Samples, VadOptions, VadRequest, VoiceEvent
from streamscribe.worker.segment import Emit, Segment, StreamTools, audio_priority, seconds
from streamscribe.worker.track import AudioTrack


class Channel:
    """Hears blocks one after the other and tells when voice begins and ends; `endpointer` makes segments of it."""

    def __init__(self, index: int, opened: SessionOpened, tools: StreamTools, emit: Emit) -> None:
        self.index = index
        self.rules = endpoint_rules(opened.options, tools)
        self.track = AudioTrack(tools.models.vad.block_samples)
        self.endpointer = Endpointer(self.rules, self.track.quietest)
        self.segment: Segment | None = None
        self._session_id = opened.session_id
        self._replica = tools.models.vad_replica
        silence_ms = opened.options.endpoint.silence_ms or tools.settings.silence_ms
        self._state = tools.models.vad.open(VadOptions(silence_ms))
        self._priority = audio_priority(opened.options)
        self._key = object()  # what a replica may hold for a while after the channel is gone
        self._emit = emit

    async def hear(self, block: Samples, *, last: bool = False) -> Sequence[VoiceEvent]:
        """What the block tells of the voice; the track has it then."""
        heard = await self._replica.submit(
            VadRequest(self._state, block, last),
            priority=self._priority,
            audio_s=seconds(len(block)),
            exclusive=self._key,
            patient=True,
        )
        self.track.hold(block, heard.frames)
        for change in heard.events:
            event = SpeechStarted if change.started else SpeechStopped
            self._emit(event(self._session_id, self.index, to_ms(change.at)))
        return heard.events

    def forget(self) -> None:
        """Drops the audio that no segment can ask for any more."""
        self.track.forget_before(self.endpointer.oldest_needed)


def endpoint_rules(options: SessionOptions, tools: StreamTools) -> EndpointRules:
    """A session's rules for cutting: its wishes, else the server's; no segment is longer than the model takes.

    A segment is given so much of what follows it as the model was measured to need. All lie on the grid of frames, and
    so do segments, whose frames are those of the session then.
    """
    settings, wished, recognizer = tools.settings, options.endpoint, tools.models.recognition.current.recognizer
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
