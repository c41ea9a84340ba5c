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
        """The features that `frames` complete, and the frames that are the next ones' context, of each stream.

        All have (streams, frames, ...). A stream begins with no context (its first frame is then its own) and ends with
        `last`, which repeats its last frame. How it was cut changes nothing, bit for bit.
        """
        if frames.shape[1] and not context.shape[1]:
            context = np.repeat(frames[:, :1], CONTEXT, axis=1)
        known = np.concatenate((context, frames), axis=1)
        if last and known.shape[1]:
            known = np.concatenate((known, np.repeat(known[:, -1:], CONTEXT, axis=1)), axis=1)
        ready = max(0, known.shape[1] - (SPLICED - 1))
        spliced = np.ndarray(
            (len(known), ready, SPLICED * MELS),
            np.float32,
            buffer=known,
            strides=known.strides,  # each a frame on
        )
        features = spliced + self._shift
        features *= self._scale
        return features, known[:, ready:]
