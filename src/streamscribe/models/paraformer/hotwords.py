"""Hot words for SeACo-Paraformer: phrases become tokens, and each phrase one row of the matrix that biases decoding."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from streamscribe.compiled import Compiled
from streamscribe.core.ids import TenantId
from streamscribe.core.options import Hotword
from streamscribe.models.onnx_session import open_session

Floats = npt.NDArray[np.float32]

CACHED_SETS = 256
CACHED_ROWS = 32_768
"""Of all sets that are kept together; a row has 512 floats."""

_NO_HOTWORD = 1
"""The token `<s>`: a row that stands for no hot word must always be there."""


class HotwordCompiler:
    """Knows how the model writes a phrase."""

    def __init__(self, vocabulary: Sequence[str], seg_dict: Path | None = None) -> None:
        """`seg_dict` has a line for each known word: the word, then its tokens."""
        self._ids = {token: index for index, token in enumerate(vocabulary)}
        lines = seg_dict.read_text(encoding="utf-8").splitlines() if seg_dict else []
        self._words = {word: tokens for word, _, tokens in (line.strip().partition(" ") for line in lines)}

    def tokens(self, phrase: str) -> list[int]:
        """The phrase's tokens; none if the model cannot write all of it."""
        tokens: list[int] = []
        for word in phrase.lower().split():
            pieces = self._word(word) or [piece for letter in word for piece in self._word(letter) or ("",)]
            tokens += [self._ids.get(piece, -1) for piece in pieces]
        return [] if -1 in tokens else tokens

    def _word(self, word: str) -> list[str]:
        return self._words.get(word, "").split() or ([word] if word in self._ids else [])


class HotwordEmbedder:
    """Computes bias matrices; those of the hot-word sets used last are kept, each for its tenant."""

    def __init__(self, model: onnx.ModelProto, compiler: HotwordCompiler, *, threads: int) -> None:
        self._compiler = compiler
        self._session = open_session(model, threads=threads)
        self._inputs = self._session.get_inputs()
        width = self._inputs[0].shape[1]
        self._longest = width if isinstance(width, int) else None
        self._matrices: Compiled[tuple[str, ...], Floats] = Compiled(
            self._make, lambda phrases: len(phrases) + 1, max_entries=CACHED_SETS, max_size=CACHED_ROWS
        )

    def matrix(self, hotwords: Sequence[Hotword], tenant_id: TenantId | None = None) -> Floats:
        """A row for each phrase that the model can write, and last the row for none; shape (rows, width).

        Weights are left aside, for the model knows none.
        """
        return self._matrices.of(tenant_id, tuple(sorted({hotword.phrase for hotword in hotwords})))

    def _make(self, phrases: Sequence[str]) -> Floats:
        compiled = [self._compiler.tokens(phrase) for phrase in phrases]
        writable = [tokens for tokens in compiled if 0 < len(tokens) <= (self._longest or len(tokens))]
        return self._embed([*writable, [_NO_HOTWORD]])

    def _embed(self, phrases: Sequence[Sequence[int]]) -> Floats:
        """The network's state after each phrase's last token."""
        lengths = np.array([len(tokens) for tokens in phrases], np.int32)
        padded = np.zeros((len(phrases), self._longest or lengths.max()), np.int32)
        for row, tokens in zip(padded, phrases, strict=True):
            row[: len(tokens)] = tokens
        values: Mapping[str, npt.NDArray[np.int32]] = dict(
            zip((value.name for value in self._inputs), (padded, lengths), strict=False)
        )
        (states,) = self._session.run(None, values)
        return np.ascontiguousarray(states[lengths - 1, np.arange(len(phrases))], np.float32)
