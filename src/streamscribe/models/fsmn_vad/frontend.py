"""FunASR's online front end for FSMN-VAD: log-mel features, five frames spliced, normalised; each computed once."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import kaldi_native_fbank as knf
import numpy as np
import numpy.typing as npt

from streamscribe.core.audio import SAMPLE_RATE

Floats = npt.NDArray[np.float32]

MELS = 80
FRAME_SAMPLES = 400
SHIFT_SAMPLES = 160
SPLICED = 5
CONTEXT = SPLICED // 2
"""Frames of context on each side; a feature is known `CONTEXT` frames after its own samples."""

REACH_SAMPLES = FRAME_SAMPLES + CONTEXT * SHIFT_SAMPLES
"""From the first sample of a frame to the last sample that its features need."""


@dataclass(frozen=True, slots=True)
class FrontendState:
    """What a stream carries from block to block: samples of less than a frame, and the last `SPLICED - 1` frames."""

    samples: Floats = field(default_factory=lambda: np.empty(0, np.float32))
    frames: Floats = field(default_factory=lambda: np.empty((0, MELS), np.float32))


class Frontend:
    """Computes features of 10 ms frames, shape (frames, 400); holds nothing of a stream."""

    def __init__(self, cmvn_file: Path) -> None:
        self._shift, self._scale = _read_cmvn(cmvn_file)
        self._options = knf.FbankOptions()
        self._options.frame_opts.dither = 0
        self._options.frame_opts.window_type = "hamming"
        self._options.frame_opts.snip_edges = True
        self._options.mel_opts.num_bins = MELS
        self._options.energy_floor = 0

    def features(self, state: FrontendState, samples: Floats, *, last: bool) -> tuple[Floats, FrontendState]:
        """The features that `samples` (float32 in [-1, 1]) complete, and the state after; `last` completes the rest.

        How the stream was cut into blocks changes nothing, bit for bit.
        """
        frames, rest = self._mel_frames(state, samples)
        if last and len(frames):
            frames = np.concatenate((frames, np.repeat(frames[-1:], CONTEXT, axis=0)))
        ready = max(0, len(frames) - (SPLICED - 1))
        after = FrontendState(rest, frames[ready:].copy())
        if not ready:
            return np.empty((0, SPLICED * MELS), np.float32), after
        windows = np.lib.stride_tricks.sliding_window_view(frames, SPLICED, axis=0)
        spliced = windows.transpose(0, 2, 1).reshape(ready, SPLICED * MELS)
        return np.asarray((spliced + self._shift) * self._scale, np.float32), after

    def _mel_frames(self, state: FrontendState, samples: Floats) -> tuple[Floats, Floats]:
        """The carried frames and those that `samples` complete, and the samples that remain.

        The stream's first frame is also its left context.
        """
        wave = np.concatenate((state.samples, samples))
        count = max(0, (len(wave) - FRAME_SAMPLES) // SHIFT_SAMPLES + 1)
        rest = wave[count * SHIFT_SAMPLES :].copy()
        if not count:
            return state.frames, rest
        computer = knf.OnlineFbank(self._options)
        computer.accept_waveform(SAMPLE_RATE, wave * np.float32(1 << 15))
        frames = np.stack([computer.get_frame(i) for i in range(count)])
        context = state.frames if len(state.frames) else np.repeat(frames[:1], CONTEXT, axis=0)
        return np.concatenate((context, frames)), rest


def _read_cmvn(file: Path) -> tuple[Floats, Floats]:
    """Shift and scale of the normalisation, from Kaldi's text form: the vector lies on the line after its tag."""
    lines = file.read_text(encoding="utf-8").splitlines()
    vectors = {}
    for tag, line in pairwise(lines):
        name = tag.split(maxsplit=1)[0] if tag.strip() else ""
        if name in ("<AddShift>", "<Rescale>"):
            vectors[name] = np.array(line[line.index("[") + 1 : line.index("]")].split(), np.float32)
    return vectors["<AddShift>"], vectors["<Rescale>"]
