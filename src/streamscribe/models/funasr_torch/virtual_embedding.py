"""Rows that an encoder made, under token ids of their own: what takes token ids only reads them as it reads words."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from streamscribe.models.ports import Embedding


class VirtualEmbedding(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A language model's embedding with a table of `rows` beside it: ids from `first` on, the size of the vocabulary,
    stand for rows of the table.

    A row has one holder. Who gives it back must know that nothing reads it any more, nor anything that was computed of
    it under its id: a cache of keys and values that goes by ids must be off.
    """

    def __init__(self, base: nn.Embedding, rows: int) -> None:
        super().__init__()
        self.base = base
        self.first: int = base.num_embeddings
        weight = base.weight
        table = torch.zeros(rows, weight.shape[1], dtype=weight.dtype, device=weight.device)
        self.register_buffer("table", table, persistent=False)
        self._free = deque(range(rows))

    @property
    def weight(self) -> Tensor:
        """Those of the vocabulary."""
        return self.base.weight

    @property
    def width(self) -> int:
        """Columns of a row."""
        return int(self.table.shape[1])

    @property
    def free(self) -> int:
        """Rows that nobody holds."""
        return len(self._free)

    def hold(self, embedding: Embedding) -> list[int]:
        """Copies the rows, of which there are at most `free`, into the table; the ids that stand for them, in order.

        They can be read by any stream once this returns.
        """
        taken = [self._free.popleft() for _ in range(len(embedding))]
        self.table[taken] = torch.tensor(embedding, dtype=self.table.dtype, device=self.table.device)
        if self.table.is_cuda:
            torch.cuda.current_stream(self.table.device).synchronize()
        return [self.first + row for row in taken]

    def give_back(self, ids: Sequence[int]) -> None:
        """The rows are free again; those that have been free for longest are taken first."""
        self._free.extend(index - self.first for index in ids)

    def forward(self, ids: Tensor) -> Tensor:
        """The row of each id, whether of the vocabulary or of the table."""
        virtual = ids >= self.first
        words = self.base(ids.masked_fill(virtual, 0))
        return torch.where(virtual[..., None], self.table[(ids - self.first).clamp(min=0)], words)


def with_embedding(language_model: Any, embedding: VirtualEmbedding) -> Any:
    """The language model with another input embedding: weights are shared, and `language_model` stays as it is.

    Two threads may run the two. They could not with one configuration: while the manager's step runs, transformers
    writes into it that attention is not causal, and another thread may read that, or put it back for good.
    """
    config = copy.deepcopy(language_model.config)
    borrowed = _twin(language_model, config)
    borrowed.model = _twin(language_model.model, config)
    borrowed.set_input_embeddings(embedding)
    return borrowed


def _twin(module: Any, config: Any) -> Any:
    """The module with a configuration and a table of submodules of its own."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    twin.config = config
    return twin
