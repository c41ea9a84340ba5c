"""Watches a batch while a language model writes: ends texts that run on or go round, and keeps how sure they are."""

import math
from collections.abc import Collection, Sequence
from itertools import takewhile

import torch
from torch import Tensor

from streamscribe.models.guards import loop_start


class Watch:
    """A logits processor of transformers for one greedy `generate`, by rows of the batch.

    A row is ended at its limit of tokens, or when its last tokens say the same again and again.
    """

    def __init__(self, limits: Sequence[int], end: int) -> None:
        self._limits = limits
        self._end = end
        self._best: list[list[float]] = []

    def __call__(self, written: Tensor, scores: Tensor) -> Tensor:
        """The scores of the next token, (batch, vocabulary), with no choice but the end for rows to be ended."""
        best = torch.log_softmax(scores.float(), dim=-1).max(dim=-1).values
        self._best.append(best.tolist())
        ended = [
            index
            for index, row in enumerate(written.tolist())
            if len(row) >= self._limits[index] or loop_start(row) is not None
        ]
        if ended:
            scores = scores.clone()
            scores[ended] = -math.inf
            scores[ended, self._end] = 0
        return scores

    def result(self, index: int, tokens: Sequence[int]) -> tuple[list[int], float]:
        """A row's tokens up to its end, a loop said once, and the mean probability of a token."""
        spoken = said(tokens, self._limits[index], (self._end,))
        return spoken, mean_probability([step[index] for step in self._best[: len(spoken)]])


def said(tokens: Sequence[int], limit: int, ends: Collection[int]) -> list[int]:
    """The tokens up to the first of the `ends`, at most `limit`, a loop at their end said once."""
    spoken = list(takewhile(lambda token: token not in ends, tokens))
    return spoken[: min(limit, loop_start(spoken) or len(spoken))]


def mean_probability(logarithms: Sequence[float]) -> float:
    """The geometric mean of probabilities by their logarithms; 0 of none."""
    return min(1.0, math.exp(sum(logarithms) / len(logarithms))) if logarithms else 0.0
