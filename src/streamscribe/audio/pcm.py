"""A client's PCM bytes to float32 at 16 kHz, one array per channel, whatever the packet sizes."""

from collections.abc import Callable

import numpy as np
import soxr

from streamscribe.audio.g711 import ALAW, MULAW, Samples
from streamscribe.core.audio import SAMPLE_RATE, AudioFormat, Encoding

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


class PcmReader:
    """Reads one session's audio bytes; the samples do not depend on how the bytes were cut into packets (law 4).

    A sample or frame cut by a packet waits for its rest. Float input outside [-1, 1] is clipped, NaN becomes 0.
    Other rates than 16 kHz are resampled with state, so output lags input by about 0.1 s until `flush`.
    """

    def __init__(self, format: AudioFormat) -> None:
        self._decode = _DECODERS[format.encoding]
        self._channels = format.channels
        self._frame_bytes = format.encoding.sample_bytes * format.channels
        self._carried = b""
        self._resamplers = (
            [soxr.ResampleStream(format.sample_rate, SAMPLE_RATE, 1, "float32") for _ in range(format.channels)]
            if format.sample_rate != SAMPLE_RATE
            else []
        )

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
        return [
            _clip(resampler.resample_chunk(np.ascontiguousarray(channel), last=last))
            for resampler, channel in zip(self._resamplers, channels, strict=True)
        ]


def _clip(samples: Samples) -> Samples:
    """Filtering rings at full-scale edges; engines are promised [-1, 1]."""
    return np.clip(samples, -1.0, 1.0, out=samples)
