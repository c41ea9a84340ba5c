"""Where another worker can go on with a session, and where this one goes on."""

from collections.abc import Sequence

from streamscribe.audio.pcm import begin_before, bytes_before
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.checkpoint import ChannelPoint, Checkpoint
from streamscribe.core.input_log import InputLog, Place
from streamscribe.core.integrity import ensure
from streamscribe.core.options import Hotword
from streamscribe.core.records import AudioChunk, Checkpointed, SessionOpened
from streamscribe.core.trail import Mark, Trail
from streamscribe.core.transcript import Transcript
from streamscribe.models.pool import Models
from streamscribe.worker.channel import Channel
from streamscribe.worker.segment import Emit

_BEGINNING = ChannelPoint(0, (), None, 0, 0)
_APART = SAMPLE_RATE
"""Where nobody speaks, a point is taken each second of the clock, on all channels at once."""


def beginning(opened: SessionOpened) -> Checkpoint:
    """Where a worker takes a session: at its checkpoint, else at its first record."""
    options = opened.options
    channels = (_BEGINNING,) * options.audio.channels
    return opened.checkpoint or Checkpoint(opened.index + 1, 0, 0, 0, options.hotwords, channels, 0)


class Recovery:
    """Tells a session's checkpoints: while it is silent about one a second, else one with each last final.

    A checkpoint is where the audio begins that makes what is open, or not told, on any channel. Each channel stands at
    a point between two segments (`core.trail`). Costs a few comparisons a block; of the records it knows those of the
    newest seconds (law 7).
    """

    def __init__(
        self,
        opened: SessionOpened,
        begin: Checkpoint,
        channels: Sequence[Channel],
        transcript: Transcript,
        models: Models,
        emit: Emit,
    ) -> None:
        self._session_id = opened.session_id
        self._format = opened.options.audio
        self._channels = channels
        self._transcript = transcript
        self._models = models
        self._emit = emit
        self._told = self._forget_at = begin.start
        self._input = InputLog(bytes_before(self._format, begin.start) - begin.skip_bytes)
        place = Place(begin.index, begin.skip_bytes, begin.sequence, begin.hotwords)
        self.trails = [Trail(Mark(point, begin.start, place)) for point in begin.channels]

    def receive(self, chunk: AudioChunk, sequence: int, hotwords: tuple[Hotword, ...]) -> None:
        """The next chunk has come, of which nothing is heard yet; `sequence` is the one before, `hotwords` hold now."""
        self._input.add(chunk.index, len(chunk.data), sequence, hotwords)
        heard = self._channels[0].track.heard
        if heard >= self._forget_at:
            self._forget_at = heard + _APART
            oldest = heard - max(channel.reach for channel in self._channels)
            self._input.forget_before(bytes_before(self._format, begin_before(self._format, oldest)))

    def heard(self, channel: Channel, *, closed: bool) -> None:
        """The channel has heard a block, or a flush, in which a segment was `closed` or none."""
        trail = self.trails[channel.index]
        due = channel.track.heard // _APART > trail.newest // _APART and channel.endpointer.quiet
        if not closed and not due:
            return
        point = channel.point
        if point is None:
            return
        start = begin_before(self._format, channel.needed)
        place = self._input.find(bytes_before(self._format, start))
        if place is not None:
            trail.take(point, start, place)
            self._tell()

    def conclude(self, channel: int) -> None:
        """The next segment of the channel has its last final."""
        self.trails[channel].tell()
        self._tell()

    def _tell(self) -> None:
        """Tells where another worker could go on now, if that spares it audio."""
        oldest = min(self.trails, key=lambda trail: trail.start)
        if oldest.start <= self._told:
            return
        self._told = oldest.start
        place = oldest.place
        checkpoint = Checkpoint(
            place.index,
            place.skip_bytes,
            oldest.start,
            place.sequence,
            place.hotwords,
            tuple(trail.point for trail in self.trails),
            self._transcript.next_id,
            self._models.versions,
        )
        self._emit(Checkpointed(self._session_id, checkpoint))

    def check_integrity(self) -> None:
        """The equations of its ledgers; no channel needs audio from before the checkpoint that was told."""
        self._input.check_integrity()
        for trail in self.trails:
            trail.check_integrity()
        ensure(self._told <= min(trail.start for trail in self.trails), "what is told is true")
