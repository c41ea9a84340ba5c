"""Audio formats and the one clock of a session: samples at 16 kHz since it began.

A sample index is an `int` whose name ends in `_samples` or that is called `start`/`end` in a docstring that says
so; milliseconds appear only in what a person or a client reads.
"""

from dataclasses import dataclass
from enum import StrEnum

SAMPLE_RATE = 16_000
"""Rate of all audio behind the front end, in samples per second per channel."""

MIN_CLIENT_RATE = 8_000
MAX_CLIENT_RATE = 48_000
MAX_CHANNELS = 2


class Encoding(StrEnum):
    """How a client's bytes encode samples; little-endian where that matters."""

    PCM_S16 = "pcm_s16le"
    PCM_F32 = "pcm_f32le"
    MULAW = "mulaw"
    ALAW = "alaw"

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample of one channel."""
        return {"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1}[self.value]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """What a session's audio bytes are; raises ValueError that names the field for what is out of bounds."""

    encoding: Encoding = Encoding.PCM_S16
    sample_rate: int = SAMPLE_RATE
    channels: int = 1

    def __post_init__(self) -> None:
        if not MIN_CLIENT_RATE <= self.sample_rate <= MAX_CLIENT_RATE:
            raise ValueError(f"audio.sample_rate must be {MIN_CLIENT_RATE} to {MAX_CLIENT_RATE}")
        if not 1 <= self.channels <= MAX_CHANNELS:
            raise ValueError(f"audio.channels must be 1 to {MAX_CHANNELS}")

    @property
    def bytes_per_second(self) -> int:
        """Bytes of one second of audio, all channels."""
        return self.encoding.sample_bytes * self.channels * self.sample_rate

    def seconds(self, size_bytes: int) -> float:
        """Duration of so many bytes."""
        return size_bytes / self.bytes_per_second


def to_ms(samples: int) -> int:
    """Milliseconds of a 16 kHz sample index, rounded down; monotone."""
    return samples * 1000 // SAMPLE_RATE


def to_samples(ms: int) -> int:
    """16 kHz samples of a duration in milliseconds."""
    return ms * SAMPLE_RATE // 1000
