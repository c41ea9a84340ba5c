"""One channel of a session: its recent audio, its voice, and the segment that is open on it."""

from collections.abc import Sequence

from streamscribe.core.audio import to_ms, to_samples
from streamscribe.core.batching import Priority
from streamscribe.core.endpoint import Endpointer, EndpointRules
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import SessionOpened, SpeechStarted, SpeechStopped
from streamscribe.models.ports import Samples, VadOptions, VadRequest, VoiceEvent
from streamscribe.worker.patience import submit_patiently
from streamscribe.worker.segment import Emit, Segment, StreamTools, seconds
from streamscribe.worker.track import AudioTrack


class Channel:
    """Hears blocks one after the other and tells when voice begins and ends; `endpointer` makes segments of it."""

    def __init__(self, index: int, opened: SessionOpened, tools: StreamTools, emit: Emit) -> None:
        self.index = index
        rules, vad_options = endpoint_rules(opened.options, tools)
        self.endpointer = Endpointer(rules)
        self.track = AudioTrack(tools.models.vad.block_samples)
        self.segment: Segment | None = None
        self._session_id = opened.session_id
        self._replica = tools.models.vad_replica
        self._state = tools.models.vad.open(vad_options)
        self._key = object()  # what a replica may hold for a while after the channel is gone
        self._emit = emit

    async def hear(self, block: Samples, *, last: bool = False) -> Sequence[VoiceEvent]:
        """What the block tells of the voice; the track has it then."""
        changes = await submit_patiently(
            self._replica,
            VadRequest(self._state, block, last),
            priority=Priority.NORMAL,
            audio_s=seconds(len(block)),
            exclusive=self._key,
        )
        self.track.hold(block)
        for change in changes:
            event = SpeechStarted if change.started else SpeechStopped
            self._emit(event(self._session_id, self.index, to_ms(change.at)))
        return changes

    def forget(self) -> None:
        """Drops the audio that no segment can ask for any more."""
        self.track.forget_before(self.endpointer.oldest_needed)


def endpoint_rules(options: SessionOptions, tools: StreamTools) -> tuple[EndpointRules, VadOptions]:
    """A session's rules for cutting: its wishes, else the server's; no segment is longer than the model takes."""
    settings = tools.settings
    preroll, tail = to_samples(settings.preroll_ms), to_samples(settings.tail_ms)
    longest_ms = to_ms(tools.models.recognizer.max_samples - preroll - tail)
    max_segment_ms = min(options.endpoint.max_segment_ms or settings.max_segment_ms, longest_ms)
    rules = EndpointRules(
        max_segment=to_samples(max_segment_ms),
        preroll=preroll,
        tail=tail,
        lookback=tools.models.vad.lookback_samples,
    )
    return rules, VadOptions(options.endpoint.silence_ms or settings.silence_ms, max_segment_ms)
