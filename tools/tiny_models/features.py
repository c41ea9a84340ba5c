"""Log-mel features of the training speech: augmented copies, kept as 16-bit floats in one memory-mapped array.

A folder holds `frames.npy` (all frames of all copies, 80 bands, before stacking), `offsets.npy`, `tokens.json` (one
list per utterance) and `am.mvn` (mean and scale of the stacked frames, in Kaldi's text form).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

import kaldi_native_fbank as knf
import numpy as np
from numpy.typing import NDArray

from .corpus import Plan
from .speech import Sound, telephone, utter

COPIES = 3
BANDS, STACKED, STRIDE = 80, 7, 6


def fbank(sound: Sound) -> NDArray[np.float32]:
    """[frames, 80] as FunASR computes them: hamming window, 25 ms every 10 ms, no dither, 16-bit scale."""
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = 16_000
    options.frame_opts.dither = 0.0
    options.frame_opts.window_type = "hamming"
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = BANDS
    options.energy_floor = 0.0
    computer = knf.OnlineFbank(options)
    computer.accept_waveform(16_000, (sound * 32768).tolist())
    computer.input_finished()
    return np.array([computer.get_frame(i) for i in range(computer.num_frames_ready)], np.float32).reshape(-1, BANDS)


def stack(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """[frames / 6, 560]: FunASR's low frame rate, seven frames every sixth, the ends repeated."""
    steps = -(-len(frames) // STRIDE)
    padded = np.concatenate([np.repeat(frames[:1], STACKED // 2, axis=0), frames])
    missing = (steps - 1) * STRIDE + STACKED - len(padded)
    padded = np.concatenate([padded, np.repeat(padded[-1:], max(0, missing), axis=0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, STACKED, axis=0)[: steps * STRIDE : STRIDE]
    return windows.transpose(0, 2, 1).reshape(steps, STACKED * BANDS)


def augment(sound: Sound, copy: int, draw: np.random.Generator) -> Sound:
    """Level -15..+4 dB, white or pink noise at 12..40 dB on most; the last copy goes through a telephone."""
    sound = sound * np.float32(10 ** (draw.uniform(-15, 4) / 20))
    if draw.random() < 0.85:
        noise = draw.standard_normal(len(sound)).astype(np.float32)
        if draw.random() < 0.5:
            spectrum = np.fft.rfft(noise)
            noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), len(sound))
        level = max(float(np.sqrt(np.mean(sound**2))), 0.0 if sound.any() else 0.02)
        sound = sound + noise / noise.std() * level * 10 ** (-draw.uniform(12, 40) / 20)
    sound = np.clip(sound, -1, 1).astype(np.float32)
    return telephone(sound) if copy == COPIES - 1 else sound


def _copies(job: tuple[int, Plan]) -> list[NDArray[np.float16]]:
    index, plan = job
    sound = utter(plan)
    return [
        fbank(augment(sound, copy, np.random.default_rng((index, copy)))).astype(np.float16) for copy in range(COPIES)
    ]


def write(plans: list[Plan], folder: Path) -> None:
    """Speaks and writes everything; copy c of utterance i is item `c * len(plans) + i`."""
    folder.mkdir(parents=True, exist_ok=True)
    with Pool(2) as pool:
        made = pool.map(_copies, enumerate(plans), chunksize=16)
    items = [copies[copy] for copy in range(COPIES) for copies in made]
    np.save(folder / "frames.npy", np.concatenate(items))
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, items)]))
    (folder / "tokens.json").write_text(json.dumps([plan.tokens for plan in plans], ensure_ascii=False))
    _write_normalisation(items, folder / "am.mvn")


def _write_normalisation(items: list[NDArray[np.float16]], path: Path) -> None:
    size, count = STACKED * BANDS, 0
    total, squares = np.zeros(size), np.zeros(size)
    for item in items[::COPIES]:
        rows = stack(item.astype(np.float32)).astype(np.float64)
        count, total, squares = count + len(rows), total + rows.sum(0), squares + (rows**2).sum(0)
    mean = total / count
    scale = 1 / np.sqrt(squares / count - mean**2)
    shape = f"{size} {size}"
    shift_text, scale_text = (" ".join(f"{value:.6f}" for value in row) for row in (-mean, scale))
    path.write_text(
        f"<Nnet>\n<Splice> {shape}\n[ 0 ]\n<AddShift> {shape}\n<LearnRateCoef> 0 [ {shift_text} ]\n"
        f"<Rescale> {shape}\n<LearnRateCoef> 0 [ {scale_text} ]\n</Nnet>\n"
    )


def read_normalisation(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What is added to a stacked frame, and what the sum is multiplied by."""
    rows = [line.split("[")[1].split("]")[0] for line in path.read_text().splitlines() if line.startswith("<Learn")]
    shift, scale = (np.array(row.split(), np.float32) for row in rows)
    return shift, scale


@dataclass(frozen=True)
class Features:
    """The features of a folder, copies told apart."""

    frames: NDArray[np.float16]
    offsets: NDArray[np.int64]
    tokens: list[list[str]]
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    @staticmethod
    def read(folder: Path, normalisation: Path) -> "Features":
        return Features(
            np.load(folder / "frames.npy", mmap_mode="r"),
            np.load(folder / "offsets.npy"),
            json.loads((folder / "tokens.json").read_text()),
            *read_normalisation(normalisation),
        )

    def __len__(self) -> int:
        """How many utterances; there are COPIES times as many items."""
        return len(self.tokens)

    def length(self, item: int) -> int:
        return int(self.offsets[item + 1] - self.offsets[item])

    def stacked(self, item: int, skip: int = 0) -> NDArray[np.float32]:
        """[frames / 6, 560], normalised, the first `skip` frames left out."""
        frames = self.frames[self.offsets[item] + skip : self.offsets[item + 1]].astype(np.float32)
        return (stack(frames) + self.shift) * self.scale

    def batches(self, rows: int, shuffle: "np.random.Generator") -> Iterator[list[int]]:
        """One pass over the utterances, a random copy of each, in groups of like length with `rows` stacked rows."""
        items = shuffle.permutation(len(self)) + len(self) * shuffle.integers(COPIES, size=len(self))
        batches: list[list[int]] = []
        for start in range(0, len(items), 800):
            batch: list[int] = []
            for item in sorted((int(i) for i in items[start : start + 800]), key=self.length):
                if batch and (self.length(item) // STRIDE + 6) * (len(batch) + 1) > rows:
                    batches.append(batch)
                    batch = []
                batch.append(item)
            batches.append(batch)
        shuffle.shuffle(batches)
        yield from batches
