"""A voice activity detector that calls voice what is loud."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamscribe.core.audio import to_samples
from streamscribe.core.errors import BadRequest
from streamscribe.models.ports import (
    FRAME_SAMPLES,
    FRAME_SHIFT_SAMPLES,
    Frames,
    Heard,
    Samples,
    VadOptions,
    VadRequest,
    VoiceEvent,
    frame_count,
)

_FRAME = to_samples(10)
_ONSET_FRAMES = 10
_LOUD_RMS = 0.01


@dataclass(slots=True)
class _Stream:
    """One stream's state; positions in samples, runs in frames."""

    silence_frames: int
    position: int = 0
    voice: bool = False
    loud_run: int = 0
    quiet_run: int = 0
    samples: Samples = field(default_factory=lambda: np.empty(0, np.float32))


class FakeVoiceActivityDetector:
    """Voice begins with the first of 100 ms of loud frames and ends after the last one before `silence_ms` of quiet.

    Blocks of any multiple of 10 ms give the same events. Its frames are the samples themselves in rows of 160, told
    when a real frame would be complete.
    """

    @property
    def block_samples(self) -> int:
        """100 ms."""
        return to_samples(100)

    @property
    def lookback_samples(self) -> int:
        """A start is told when its 100 ms are full."""
        return _ONSET_FRAMES * _FRAME

    @property
    def memory_samples(self) -> int:
        """What no frame has yet is less than one."""
        return FRAME_SAMPLES

    def open(self, options: VadOptions) -> _Stream:
        """State of a new stream."""
        return _Stream(max(1, options.silence_ms // 10))

    def point(self, state: _Stream) -> tuple[int, ...]:
        """Its position, its voice and its runs."""
        return (state.position, int(state.voice), state.loud_run, state.quiet_run)

    def go_on(self, state: _Stream, point: tuple[int, ...]) -> None:
        """Stands where another stood; raises BadRequest for what is no point."""
        if len(point) != 4 or min(point) < 0:
            raise BadRequest("this is no point of the fake detector", field="checkpoint")
        state.position, voice, state.loud_run, state.quiet_run = point
        state.voice = bool(voice)

    def step(self, batch: Sequence[VadRequest]) -> list[Heard]:
        """Advances each stream by its block."""
        if not batch:
            return []
        frames = max(-(-len(request.samples) // _FRAME) for request in batch)
        audio = np.zeros((len(batch), frames * _FRAME), dtype=np.float32)
        for row, request in zip(audio, batch, strict=True):
            row[: len(request.samples)] = request.samples
        framed = audio.reshape(len(batch), frames, _FRAME)
        loud = np.einsum("bfs,bfs->bf", framed, framed) > _LOUD_RMS**2 * _FRAME
        return [
            Heard(_advance(request, row), _frames(request)) for request, row in zip(batch, loud.tolist(), strict=True)
        ]


def _advance(request: VadRequest, loud: list[bool]) -> tuple[VoiceEvent, ...]:
    stream: _Stream = request.state
    end = stream.position + len(request.samples)
    events: list[VoiceEvent] = []
    for is_loud in loud[: -(-len(request.samples) // _FRAME)]:
        stream.position += _FRAME
        _hear(stream, is_loud, events)
    if request.last and stream.voice:
        _end_voice(stream, min(end, stream.position - stream.quiet_run * _FRAME), events)
    stream.position = end
    return tuple(events)


def _frames(request: VadRequest) -> Frames:
    stream: _Stream = request.state
    wave = np.concatenate((stream.samples, request.samples))
    count = frame_count(len(wave))
    frames, rest = np.split(wave, [count * FRAME_SHIFT_SAMPLES])
    stream.samples = rest.copy()
    return frames.reshape(count, FRAME_SHIFT_SAMPLES)


def _hear(stream: _Stream, is_loud: bool, events: list[VoiceEvent]) -> None:
    """One frame more, which ends at the stream's position."""
    stream.loud_run = stream.loud_run + 1 if is_loud else 0
    stream.quiet_run = 0 if is_loud else stream.quiet_run + 1
    if not stream.voice and stream.loud_run >= _ONSET_FRAMES:
        stream.voice = True
        events.append(VoiceEvent(started=True, at=stream.position - stream.loud_run * _FRAME))
    elif stream.voice and stream.quiet_run >= stream.silence_frames:
        _end_voice(stream, stream.position - stream.quiet_run * _FRAME, events)


def _end_voice(stream: _Stream, at: int, events: list[VoiceEvent]) -> None:
    stream.voice, stream.loud_run = False, 0
    events.append(VoiceEvent(started=False, at=at))
