"""FunASR's features of whole segments: seven frames stacked every sixth ("low frame rate"), normalised."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.fbank import MELS, Fbank
from streamscribe.models.ports import Frames, Identity, SegmentRequest

Rows = npt.NDArray[np.float32]
"""Features of 60 ms each, shape (rows, 560)."""

STACKED = 7
STRIDE = 6

FRONT_END: Identity = ("fbank-lfr", 1, MELS, STACKED, STRIDE, np.__version__, version("kaldi-native-fbank"))
"""What rows depend on besides the audio and the model's normalisation: Kaldi's filter bank, seven frames stacked every
sixth, and the libraries that compute it."""

_ASSUMED = {
    "fs": 16_000, "window": "hamming", "n_mels": MELS, "frame_length": 25, "frame_shift": 10, "lfr_m": STACKED,
    "lfr_n": STRIDE,
}  # fmt: skip


class SegmentFrontend:
    """Computes what an offline model of the family reads; not thread-safe."""

    def __init__(self, config: Mapping[str, Any], cmvn_file: Path) -> None:
        """`config` is the model's; raises ModelUnavailable for features that this does not compute."""
        check_frontend(config)
        self._shift, self._scale = read_normalisation(cmvn_file)
        self._fbank = Fbank()

    def rows(self, request: SegmentRequest) -> Rows:
        """The segment's rows; none for audio of less than a frame."""
        frames = self._fbank.frames(request.samples) if request.frames is None else request.frames
        return (low_frame_rate(frames) + self._shift) * self._scale


def check_frontend(config: Mapping[str, Any]) -> None:
    """Raises ModelUnavailable for a model that reads other features than this computes."""
    for name, value in _ASSUMED.items():
        if config["frontend_conf"].get(name, value) != value:
            raise ModelUnavailable(f"config.yaml has frontend_conf.{name} other than {value}")


def low_frame_rate(frames: Frames) -> Rows:
    """(n, 80) to (n / 6 rounded up, 560); the first frame is repeated in front, the last one behind, as needed."""
    if not len(frames):
        return np.empty((0, STACKED * frames.shape[1]), np.float32)
    steps = -(-len(frames) // STRIDE)
    before = STACKED // 2
    behind = max(0, (steps - 1) * STRIDE + STACKED - before - len(frames))
    padded = np.concatenate((np.repeat(frames[:1], before, axis=0), frames, np.repeat(frames[-1:], behind, axis=0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, STACKED, axis=0)[::STRIDE][:steps]
    return np.ascontiguousarray(windows.transpose(0, 2, 1).reshape(steps, -1), np.float32)


def padded(segments: Sequence[Rows]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """The segments as one batch, zeros behind the shorter ones, and their lengths."""
    lengths = np.array([len(rows) for rows in segments], np.int32)
    batch = np.zeros((len(segments), lengths.max(), segments[0].shape[1]), np.float32)
    for padded_rows, rows in zip(batch, segments, strict=True):
        padded_rows[: len(rows)] = rows
    return batch, lengths


def read_normalisation(file: Path) -> tuple[Rows, Rows]:
    """What is added to a row and what the sum is multiplied by (Kaldi: on the lines after their tags)."""
    lines = file.read_text(encoding="utf-8").splitlines()
    vectors = {}
    for tag, line in pairwise(lines):
        name = tag.split(maxsplit=1)[0] if tag.strip() else ""
        if name in ("<AddShift>", "<Rescale>"):
            vectors[name] = np.array(line[line.index("[") + 1 : line.index("]")].split(), np.float32)
    return vectors["<AddShift>"], vectors["<Rescale>"]
