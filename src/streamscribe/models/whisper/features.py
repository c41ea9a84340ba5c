"""Whisper's log-mel spectrogram, equal to OpenAI's to float32 rounding, in numpy.

A segment is framed every 10 ms; the frames after its end are what digital silence gives, so that padding to 30 s
costs nothing.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.ports import Samples

HOP_SAMPLES = 160
FFT_SAMPLES = 400
FRAMES_PER_SECOND = SAMPLE_RATE // HOP_SAMPLES
MAX_FRAMES = 30 * FRAMES_PER_SECOND

Mel = npt.NDArray[np.float32]

_FLOOR = 1e-10
_LINEAR_STEP_HZ = 200 / 3
_LOG_FROM_HZ = 1000.0
_LOG_STEP = np.log(6.4) / 27.0


def log_mel(samples: Samples, frames: int, mels: int) -> Mel:
    """The spectrogram as `(mels, frames)`: the segment, cut or padded with silence to `frames` frames of 10 ms."""
    half = FFT_SAMPLES // 2
    heard = min(frames, -(-(len(samples) + half) // HOP_SAMPLES))
    needed = (heard - 1) * HOP_SAMPLES + half
    padded = np.zeros(half + needed, dtype=np.float32)
    taken = samples[:needed]
    padded[half : half + len(taken)] = taken
    padded[:half] = padded[half + 1 : FFT_SAMPLES + 1][::-1]
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    spectrum = np.fft.rfft(windows * _hann(), axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    log_power = np.log10(np.maximum(_filters(mels) @ power.T, _FLOOR))
    lowest = max(float(log_power.max(initial=np.log10(_FLOOR))) - 8.0, np.log10(_FLOOR))
    result = np.full((mels, frames), (lowest + 4.0) / 4.0, dtype=np.float32)
    result[:, :heard] = (np.maximum(log_power, lowest) + 4.0) / 4.0
    return result


@cache
def _hann() -> npt.NDArray[np.float32]:
    """The periodic Hann window."""
    phase = 2.0 * np.pi * np.arange(FFT_SAMPLES) / FFT_SAMPLES
    return (0.5 - 0.5 * np.cos(phase)).astype(np.float32)


@cache
def _filters(mels: int) -> npt.NDArray[np.float32]:
    """Slaney's triangular filters of equal area on the mel scale, as `(mels, FFT_SAMPLES // 2 + 1)`."""
    bins_hz = np.arange(FFT_SAMPLES // 2 + 1) * (SAMPLE_RATE / FFT_SAMPLES)
    edges_hz = _mel_to_hz(np.linspace(0.0, _hz_to_mel(SAMPLE_RATE / 2), mels + 2))
    widths = np.diff(edges_hz)
    ramps = edges_hz[:, None] - bins_hz[None, :]
    rising = -ramps[:-2] / widths[:-1, None]
    falling = ramps[2:] / widths[1:, None]
    area = 2.0 / (edges_hz[2:] - edges_hz[:-2])
    return (np.maximum(0.0, np.minimum(rising, falling)) * area[:, None]).astype(np.float32)


def _hz_to_mel(hz: float) -> float:
    return float(_LOG_FROM_HZ / _LINEAR_STEP_HZ + np.log(hz / _LOG_FROM_HZ) / _LOG_STEP)


def _mel_to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    knee = _LOG_FROM_HZ / _LINEAR_STEP_HZ
    return np.where(mel < knee, mel * _LINEAR_STEP_HZ, _LOG_FROM_HZ * np.exp(_LOG_STEP * (mel - knee)))
