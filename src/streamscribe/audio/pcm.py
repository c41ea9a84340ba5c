"""A client's PCM bytes to float32 at 16 kHz, one array per channel, whatever the packet sizes."""

from collections.abc import Callable
from functools import lru_cache
from math import gcd

import numpy as np
import soxr

from streamscribe.audio.g711 import ALAW, MULAW, Samples
from streamscribe.core.audio import SAMPLE_RATE, AudioFormat, Encoding, to_samples

_SHIFT = to_samples(10)
_INT16_SCALE = np.float32(1 / 32768)


def _from_s16(data: bytes) -> Samples:
    samples = np.frombuffer(data, "<i2").astype(np.float32)
    samples *= _INT16_SCALE
    return samples


def _from_f32(data: bytes) -> Samples:
    samples = np.frombuffer(data, "<f4").astype(np.float32)
    samples[np.isnan(samples)] = 0.0
    return _clip(samples)


def _from_mulaw(data: bytes) -> Samples:
    return MULAW[np.frombuffer(data, np.uint8)]


def _from_alaw(data: bytes) -> Samples:
    return ALAW[np.frombuffer(data, np.uint8)]


_DECODERS: dict[Encoding, Callable[[bytes], Samples]] = {
    Encoding.PCM_S16: _from_s16,
    Encoding.PCM_F32: _from_f32,
    Encoding.MULAW: _from_mulaw,
    Encoding.ALAW: _from_alaw,
}


_PROBE = 32
_PROBED = 16_384
"""Four times the longest stretch of input that any rate's resampler works on at once."""

SETTLING = to_samples(100)
"""After so much output a resampler that began in the middle gives what one gives that heard all, up to rounding."""


def begin_before(format: AudioFormat, sample: int) -> int:
    """The last sample of the session's clock at which a reader can begin, to have settled at `sample`.

    It is the first of a frame shift, and lies between two frames of the input.
    """
    resampled = format.sample_rate != SAMPLE_RATE
    shift = _SHIFT * (100 // gcd(format.sample_rate, 100))
    return max(0, sample - SETTLING * resampled) // shift * shift


def bytes_before(format: AudioFormat, start: int) -> int:
    """How many bytes of a session lie before a sample at which a reader can begin."""
    return start * format.sample_rate // SAMPLE_RATE * format.encoding.sample_bytes * format.channels


class PcmReader:
    """Reads one session's audio bytes; the samples do not depend on how the bytes were cut into packets (law 4).

    A sample or frame cut by a packet waits for its rest. Float input outside [-1, 1] is clipped, NaN becomes 0.
    Other rates than 16 kHz are resampled with state: output lags input by 0.04 to 0.13 s until `flush`, always by as
    much. So it is known at which byte a sample comes out, wherever the reader began: it can at any place that
    `begin_before` names, and up to rounding its samples are those from `start` on.
    """

    def __init__(self, format: AudioFormat, start: int = 0) -> None:
        self._rate = format.sample_rate
        self._given = start
        self._read = start * format.sample_rate // SAMPLE_RATE
        self._late = _lateness(format.sample_rate) if format.sample_rate != SAMPLE_RATE else 0
        self._decode = _DECODERS[format.encoding]
        self._channels = format.channels
        self._frame_bytes = format.encoding.sample_bytes * format.channels
        self._carried = b""
        self._resamplers = (
            [soxr.ResampleStream(format.sample_rate, SAMPLE_RATE, 1, "float32") for _ in range(format.channels)]
            if format.sample_rate != SAMPLE_RATE
            else []
        )
        self._held = [np.zeros(0, np.float32) for _ in self._resamplers]

    def read(self, data: bytes) -> list[Samples]:
        """One float32 array at 16 kHz per channel, all of one length, possibly empty."""
        if self._carried:
            data = self._carried + data
        whole = len(data) - len(data) % self._frame_bytes
        self._carried = data[whole:]
        return self._convert(data[:whole], last=False)

    def flush(self) -> list[Samples]:
        """What resampling still held, at the end of the audio; a frame that was never completed is dropped."""
        self._carried = b""
        return self._convert(b"", last=True)

    def _convert(self, data: bytes, *, last: bool) -> list[Samples]:
        samples = self._decode(data)
        channels = [samples] if self._channels == 1 else list(samples.reshape(-1, self._channels).T)
        if not self._resamplers:
            return [np.ascontiguousarray(channel) for channel in channels]
        self._read += len(channels[0])
        due = self._read if last else max(0, self._read - self._late)
        count = max(0, due * SAMPLE_RATE // self._rate - self._given)
        given = []
        for index, (resampler, channel) in enumerate(zip(self._resamplers, channels, strict=True)):
            fresh = _clip(resampler.resample_chunk(np.ascontiguousarray(channel), last=last))
            known = np.concatenate((self._held[index], fresh))
            given.append(known if last else known[:count])
            self._held[index] = known[len(given[-1]) :].copy()
        self._given += len(given[0])
        return given


@lru_cache(maxsize=64)
def _lateness(rate: int) -> int:
    """How much input a resampler may have heard before it gives what it makes of it; a few milliseconds, measured once.

    It works on whole stretches, whose length depends on the rate.
    """
    resampler, probe = soxr.ResampleStream(rate, SAMPLE_RATE, 1, "float32"), np.zeros(_PROBE, np.float32)
    late = given = 0
    for read in range(_PROBE, _PROBED, _PROBE):
        given += len(resampler.resample_chunk(probe))
        late = max(late, read - given * rate // SAMPLE_RATE)
    return late + 2 * _PROBE


def _clip(samples: Samples) -> Samples:
    """Filtering rings at full-scale edges; engines are promised [-1, 1]."""
    return np.clip(samples, -1.0, 1.0, out=samples)
