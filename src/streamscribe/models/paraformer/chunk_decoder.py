"""The decoder of a streaming Paraformer as FunASR exports it, over a batch whose streams fired unequally often."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamscribe.models.onnx_session import open_session, read_graph

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Said:
    """A chunk's tokens with their probabilities, and what the layers remember then."""

    ids: list[int]
    confidences: list[float]
    history: Floats


class ChunkDecoder:
    """Decodes the tokens that fired; not thread-safe."""

    def __init__(self, files: Mapping[str, Path], *, threads: int) -> None:
        """Reads `decoder.onnx` or `decoder_quant.onnx`."""
        self._session = open_session(read_graph(files, "decoder"), threads=threads)
        memories = [value for value in self._session.get_inputs() if value.name.startswith("in_cache_")]
        self.layers = len(memories)
        self.history: int = memories[0].shape[2]
        """How many tokens back a layer reads."""
        self._outputs = ["logits", *(f"out_cache_{layer}" for layer in range(self.layers))]

    def run(
        self, encoded: Floats, lengths: Ints, embeddings: Floats, counts: Ints, histories: Sequence[Floats]
    ) -> list[Said]:
        """What each stream said in `counts` token embeddings (streams, tokens, width)."""
        said = [Said([], [], history) for history in histories]
        for members in self._groups(counts):
            # The graph makes its masks as wide as the longest length says.
            rows, tokens = int(lengths[members].max()), int(counts[members].max())
            logits, memories = self._decode(
                encoded[members, :rows],
                lengths[members],
                embeddings[members, :tokens],
                counts[members],
                [histories[index] for index in members],
            )
            best = logits.max(axis=2)
            confidences = 1 / np.exp(logits - best[:, :, np.newaxis]).sum(axis=2)
            ids = logits.argmax(axis=2)
            for place, index in enumerate(members):
                count = int(counts[index])
                read = min(count, self.history)
                said[index] = Said(
                    ids[place, :count].tolist(),
                    confidences[place, :count].tolist(),
                    memories[:, place, :, read : read + self.history].copy(),
                )
        return said

    def _groups(self, counts: Ints) -> list[list[int]]:
        """Who can share a run: streams with more tokens than a layer remembers, only with those of as many."""
        groups: dict[int, list[int]] = defaultdict(list)
        for index, count in enumerate(counts.tolist()):
            if count:
                groups[count if count > self.history else 0].append(index)
        return list(groups.values())

    def _decode(
        self, encoded: Floats, lengths: Ints, embeddings: Floats, counts: Ints, histories: Sequence[Floats]
    ) -> tuple[Floats, Floats]:
        """Logits, and each layer's memory of all that it has read: (layers, streams, width, history and tokens).

        The graph gives a memory that ends with the padding; put behind the old one, what a stream's own tokens left
        behind is found in it.
        """
        stacked = np.stack(histories, axis=1)
        logits, *after = self._session.run(
            self._outputs,
            {
                "enc": encoded,
                "enc_len": lengths.astype(np.int32),
                "acoustic_embeds": embeddings,
                "acoustic_embeds_len": counts.astype(np.int32),
                **{f"in_cache_{layer}": memory for layer, memory in enumerate(stacked)},
            },
        )
        new = np.stack(after)[:, :, :, max(0, self.history - embeddings.shape[1]) :]
        return logits, np.concatenate((stacked, new), axis=3)
