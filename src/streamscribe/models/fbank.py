"""FunASR's spectral front end for many streams at once: Kaldi's log-mel filter bank on the 10 ms grid.

The arithmetic is Kaldi's `FbankComputer` in its own order and in single precision (mean removed, pre-emphasis 0.97,
Hamming window, power spectrum of 512 points, 80 triangles, logarithm floored at the machine epsilon), with window and
triangles taken from kaldi-native-fbank. What differs from it is the rounding of the Fourier transform, which shows in
bands a million times weaker than the frame's strongest.
"""

import kaldi_native_fbank as knf
import numpy as np

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.ports import FRAME_SAMPLES, FRAME_SHIFT_SAMPLES, Frames, Samples, frame_count

MELS = 80

_FFT = 512
_BINS = _FFT // 2 + 1
_EMPHASIS = np.float32(0.97)
_SCALE = np.float32(1 << 15)
_EPSILON = np.finfo(np.float32).eps
_SLAB = 128
"""Frames of one computation: what they need, about 1 MB, stays in a core's cache."""

_ROWS = 8
"""Frames of one matrix product. Always as many: a product's last digits depend on its shape."""


class Fbank:
    """Computes frames (float32, rows of 80) of samples in [-1, 1]; keeps nothing of a stream; not thread-safe.

    Frames do not depend on how the audio was cut or on what was computed beside them, bit for bit.
    """

    def __init__(self) -> None:
        options = knf.FbankOptions()
        options.frame_opts.samp_freq = SAMPLE_RATE
        options.frame_opts.window_type = "hamming"
        options.mel_opts.num_bins = MELS
        self._window = np.array(knf.FeatureWindowFunction(options.frame_opts).window, np.float32)
        banks = knf.MelBanks(options.mel_opts, options.frame_opts, 1.0)
        self._triangles = np.ascontiguousarray(np.array(banks.get_matrix(), np.float32).T)
        self._waves = np.empty((_SLAB, FRAME_SAMPLES), np.float32)
        self._columns = np.empty((FRAME_SAMPLES, _SLAB), np.float32)
        self._windowed = np.zeros((_SLAB, _FFT), np.float32)
        self._spectrum = np.empty((_SLAB, _BINS), np.complex64)
        self._power = np.empty((_SLAB, _BINS), np.float32)
        self._imaginary_power = np.empty((_SLAB, _BINS), np.float32)

    def frames(self, samples: Samples) -> Frames:
        """All frames of a recording."""
        frames: Frames = self.step(np.ascontiguousarray(samples, np.float32)[np.newaxis])[0]
        return frames

    def step(self, waves: Samples) -> Frames:
        """The frames of each stream's wave: (streams, samples) to (streams, frames, 80).

        A stream goes on with what lies behind its last frame's shift, and what comes then.
        """
        count = frame_count(waves.shape[1])
        shift, wave = FRAME_SHIFT_SAMPLES * waves.itemsize, waves.shape[1] * waves.itemsize
        shape = (len(waves), count, FRAME_SAMPLES)
        rows = np.ndarray(shape, np.float32, buffer=waves, strides=(wave, shift, waves.itemsize))
        rows = rows.reshape(-1, FRAME_SAMPLES)
        mels = np.empty((len(rows), MELS), np.float32)
        for start in range(0, len(rows), _SLAB):
            self._compute(rows[start : start + _SLAB], mels[start : start + _SLAB])
        return mels.reshape(len(waves), count, MELS)

    def _compute(self, rows: Samples, mels: Frames) -> None:
        """Log-mel energies of up to a slab of windows; fills up to whole products with what lies there."""
        count = -(-len(rows) // _ROWS) * _ROWS
        waves, windowed, power = self._waves[:count], self._windowed[:count], self._power[:count]
        waves[len(rows) :] = 0
        np.multiply(rows, _SCALE, out=waves[: len(rows)])
        # Summed down the columns, samples are added one after the other, as Kaldi adds them.
        columns = self._columns[:, :count]
        columns[...] = waves.T
        waves -= (np.add.reduce(columns, axis=0) / np.float32(FRAME_SAMPLES))[:, np.newaxis]
        body = windowed[:, :FRAME_SAMPLES]
        np.multiply(waves[:, :-1], _EMPHASIS, out=body[:, 1:])
        np.multiply(waves[:, 0], _EMPHASIS, out=body[:, 0])
        np.subtract(waves, body, out=body)
        np.multiply(body, self._window, out=body)
        spectrum = self._spectrum[:count]
        np.fft.rfft(windowed, out=spectrum)  # type: ignore[arg-type] # the stubs know double precision only
        np.square(spectrum.real, out=power)
        power += np.square(spectrum.imag, out=self._imaginary_power[:count])
        energies = np.matmul(power.reshape(-1, _ROWS, _BINS), self._triangles).reshape(count, MELS)[: len(rows)]
        np.log(np.maximum(energies, _EPSILON, out=energies), out=mels)
