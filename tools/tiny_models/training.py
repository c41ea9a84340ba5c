"""The training loop that all models share: AdamW, warm-up and cosine, a running average of the weights, batches."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .features import BANDS, STACKED, Features

Weights = Mapping[str, Tensor]
Statistics = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast; everything counts steps, so that the same seed repeats the same run.

    `planned_steps` is where the rate would reach its end if the run is stopped before.
    """

    steps: int
    planned_steps: int = 0
    peak_rate: float = 2e-3
    warm_up_steps: int = 250
    average_from: float = 0.6
    average_decay: float = 0.99
    seed: int = 0
    report_steps: int = 50
    snapshot_steps: int = 250

    @property
    def horizon(self) -> int:
        return self.planned_steps or self.steps

    def rate(self, step: int) -> float:
        decayed = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / self.horizon)))
        return self.peak_rate * min(1.0, (step + 1) / self.warm_up_steps) * decayed


@dataclass(frozen=True, slots=True)
class Phase:
    """Training on one corpus; a later phase goes on from the model directory that the one before has written."""

    corpus: str
    schedule: Schedule


def train(
    parameters: nn.Module,
    losses: Iterator[Callable[[], tuple[Tensor, Statistics]]],
    schedule: Schedule,
    snapshot: Callable[[Weights], None],
    log: Path,
) -> Weights:
    """Takes one optimiser step per loss; returns the averaged weights. `snapshot` gets the weights so far."""
    trained = [parameter for parameter in parameters.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=schedule.peak_rate, betas=(0.9, 0.98), weight_decay=0.01)
    average: dict[str, Tensor] = {}
    sums: dict[str, float] = {}
    began = time.perf_counter()
    for step in range(1, schedule.steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate(step)
        loss, statistics = next(losses)()
        optimiser.zero_grad()
        loss.backward()
        if torch.isfinite(nn.utils.clip_grad_norm_(trained, 5.0)):
            optimiser.step()
        if step >= schedule.average_from * schedule.horizon:
            _blend(average, parameters.state_dict(), 1 - schedule.average_decay)
        for name, value in statistics.items():
            if value is not None:
                sums[name] = sums.get(name, 0.0) + float(value)  # type: ignore[arg-type]
        if step % schedule.report_steps == 0:
            means = {name: round(total / schedule.report_steps, 4) for name, total in sums.items()}
            with log.open("a") as out:
                out.write(json.dumps({"step": step, "s": round(time.perf_counter() - began, 1), **means}) + "\n")
            sums = {}
        if step % schedule.snapshot_steps == 0:
            snapshot(average or parameters.state_dict())
    return average or parameters.state_dict()


def _blend(average: dict[str, Tensor], now: Weights, share: float) -> None:
    with torch.no_grad():
        for name, value in now.items():
            if name not in average:
                average[name] = value.clone()
            elif value.dtype.is_floating_point:
                average[name].lerp_(value, share)


def seed_everything(seed: int) -> np.random.Generator:
    """Seeds torch and numpy's global generator (FunASR's sampler draws from them); returns a generator of our own."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    return np.random.default_rng(seed)


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows, ordered so that the longest text is last: `cif_v1` fails if the last row never fires."""

    speech: Tensor
    speech_lengths: Tensor
    text: Tensor
    text_lengths: Tensor


def collate(
    features: Features,
    items: list[int],
    label: Callable[[list[str]], list[int]],
    draw: np.random.Generator,
    zero_frames: int = 0,
) -> Batch:
    """Augmented features of the items, each behind `zero_frames` rows of zeros, and their labels."""
    labelled = sorted(
        ((label(features.tokens[item % len(features)]), item) for item in items), key=lambda pair: len(pair[0])
    )
    rows = [torch.from_numpy(mask(features.stacked(item, int(draw.integers(6))), draw)) for _, item in labelled]
    speech = torch.zeros(len(rows), zero_frames + max(map(len, rows)), STACKED * BANDS)
    text = torch.full((len(rows), max(1, len(labelled[-1][0]))), -1, dtype=torch.long)
    for index, (row, (ids, _)) in enumerate(zip(rows, labelled, strict=True)):
        speech[index, zero_frames : zero_frames + len(row)] = row
        text[index, : len(ids)] = torch.tensor(ids, dtype=torch.long)
    lengths = torch.tensor([zero_frames + len(row) for row in rows])
    return Batch(speech, lengths, text, torch.tensor([len(ids) for ids, _ in labelled]))


def mask(rows: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Light SpecAugment: up to two bands of at most eight mels (the same in all stacked frames), seldom 1 or 2 rows."""
    for _ in range(int(draw.integers(3))):
        width = int(draw.integers(1, 9))
        low = int(draw.integers(BANDS - width))
        rows.reshape(-1, STACKED, BANDS)[:, :, low : low + width] = 0
    if draw.random() < 0.3 and len(rows) > 12:
        width = int(draw.integers(1, 3))
        start = int(draw.integers(len(rows) - width))
        rows[start : start + width] = 0
    return rows


def endless(features: Features, rows: int, draw: np.random.Generator) -> Iterator[list[int]]:
    while True:
        yield from features.batches(rows, draw)
