"""Watches a batch while a language model writes: ends texts that run on or go round, and keeps how sure they are."""

import math
from collections.abc import Sequence

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
        spoken = list(tokens[: tokens.index(self._end)]) if self._end in tokens else list(tokens)
        spoken = spoken[: min(self._limits[index], loop_start(spoken) or len(spoken))]
        best = [step[index] for step in self._best[: len(spoken)]]
        return spoken, min(1.0, math.exp(sum(best) / len(best))) if best else 0.0
