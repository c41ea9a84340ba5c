"""What FunASR's online front end makes of 10 ms frames for FSMN-VAD: five of them spliced, and normalised."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamscribe.models.fbank import MELS
from streamscribe.models.lfr import read_normalisation
from streamscribe.models.ports import FRAME_SAMPLES, FRAME_SHIFT_SAMPLES, Frames

Floats = npt.NDArray[np.float32]

SPLICED = 5
CONTEXT = SPLICED // 2
"""Frames of context on each side; a feature is known `CONTEXT` frames after its own samples."""

REACH_SAMPLES = FRAME_SAMPLES + CONTEXT * FRAME_SHIFT_SAMPLES
"""From the first sample of a frame to the last sample that its features need."""


class Splicer:
    """Computes features of 10 ms frames, shape (frames, 400); holds nothing of a stream."""

    def __init__(self, cmvn_file: Path) -> None:
        self._shift, self._scale = read_normalisation(cmvn_file)

    def features(self, context: Frames, frames: Frames, *, last: bool) -> tuple[Floats, Frames]:
        """The features that `frames` complete, and the frames that are the next ones' context.

        A stream begins with no context (its first frame is then its own) and ends with `last`, which repeats its last
        frame. How it was cut changes nothing, bit for bit.
        """
        if len(frames) and not len(context):
            context = np.repeat(frames[:1], CONTEXT, axis=0)
        known = np.concatenate((context, frames))
        if last and len(known):
            known = np.concatenate((known, np.repeat(known[-1:], CONTEXT, axis=0)))
        ready = max(0, len(known) - (SPLICED - 1))
        after = known[ready:].copy()
        if not ready:
            return np.empty((0, SPLICED * MELS), np.float32), after
        spliced = np.concatenate([known[i : i + ready] for i in range(SPLICED)], axis=1)
        return (spliced + self._shift) * self._scale, after
