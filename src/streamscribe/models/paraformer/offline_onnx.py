"""The offline Paraformer on ONNX Runtime: whole segments, batched, with token times and SeACo's hot words."""

import json
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import yaml

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong, BadRequest
from streamscribe.core.tokens import Token, join
from streamscribe.models.lfr import FRONT_END, Rows, SegmentFrontend, padded
from streamscribe.models.onnx_session import open_session, read_graph
from streamscribe.models.paraformer.exact_batch import WEIGHT, make_batches_exact
from streamscribe.models.paraformer.hotwords import HotwordCompiler, HotwordEmbedder
from streamscribe.models.paraformer.token_times import token_times
from streamscribe.models.ports import Hypothesis, Identity, SegmentRequest

Floats = npt.NDArray[np.float32]

LANGUAGES = ("zh", "en")
MAX_SAMPLES = 30 * SAMPLE_RATE

_BLANK, _START, _END = range(3)
_UNKNOWN = "<unk>"
_FILTERED_ROWS = 51
"""More rows than this are thinned out in the graph by what its first segment sounds like."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """What the graph tells of a segment: tokens with log probabilities, and the time network's weights and fires."""

    logits: Floats
    times: tuple[Floats, Floats] | None


class OnnxParaformer:
    """FunASR's Paraformer, its SeACo and timestamp kinds included; not thread-safe."""

    def __init__(self, files: Mapping[str, Path], *, threads: int = 1, tail_padding_ms: int = 0) -> None:
        """Builds it from `model.onnx` or `model_quant.onnx`, `am.mvn`, `tokens.json` and `config.yaml`.

        A model with a bias input needs `model_eb.onnx` too, and reads `seg_dict` if it is there. Raises
        ModelUnavailable for another kind of model.
        """
        self.tail_padding_ms = tail_padding_ms
        config = yaml.safe_load(files["config.yaml"].read_text(encoding="utf-8"))
        self._frontend = SegmentFrontend(config, files["am.mvn"])
        self._vocabulary: list[str] = json.loads(files["tokens.json"].read_bytes())
        graph = read_graph(files)
        make_batches_exact(graph)
        self._session = open_session(graph, threads=threads)
        self._outputs = [value.name for value in self._session.get_outputs()]
        self._hotwords: HotwordEmbedder | None = None
        if "bias_embed" in (value.name for value in self._session.get_inputs()):
            compiler = HotwordCompiler(self._vocabulary, files.get("seg_dict"))
            self._hotwords = HotwordEmbedder(read_graph(files, "model_eb"), compiler, threads=threads)

    @property
    def identity(self) -> Identity:
        """FunASR's Paraformer in ONNX Runtime; the graph and its arithmetic are the weights'."""
        return ("paraformer", 1, onnxruntime.__version__, "cpu", *FRONT_END)

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    @property
    def max_samples(self) -> int:
        """30 s; the model would take more, at a cost that grows with the square."""
        return MAX_SAMPLES

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag other than of Chinese or English; from any thread."""
        if code.lower().replace("_", "-").partition("-")[0] not in LANGUAGES:
            raise BadRequest("language is not one that this model knows", field="language")

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order; equal requests give equal hypotheses whatever the batch.

        Hot words whose characters the model does not know are left out. The language, where none is asked for, is
        that of the text's script. Raises AudioTooLong for more than `max_samples`.
        """
        if any(len(request.samples) > self.max_samples for request in batch):
            raise AudioTooLong("a segment is longer than 30 s")
        hypotheses = [Hypothesis("", request.language) for request in batch]
        rows = [self._frontend.rows(request) for request in batch]
        biases = [self._hotwords.matrix(one.hotwords, one.tenant_id) if self._hotwords else None for one in batch]
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for index, bias in enumerate(biases):
            if len(rows[index]):
                groups[_company(index, bias)].append(index)
        for members in groups.values():
            heard = self._hear([rows[index] for index in members], [biases[index] for index in members])
            for index, one in zip(members, heard, strict=True):
                hypotheses[index] = self._hypothesis(batch[index], one)
        return hypotheses

    def _hear(self, rows: Sequence[Rows], biases: Sequence[Floats | None]) -> list[_Heard]:
        """One run of the graph."""
        speech, lengths = padded(rows)
        feed = {"speech": speech, "speech_lengths": lengths}
        if self._hotwords:
            feed["bias_embed"] = np.stack([bias for bias in biases if bias is not None])
        out = dict(zip(self._outputs, self._session.run(None, feed), strict=True))
        counts = np.where(out[WEIGHT] < 1, 0, out["token_num"])
        heard = []
        for index, count in enumerate(counts.tolist()):
            times = None
            if "us_cif_peak" in out:
                places = lengths[index] * out["us_cif_peak"].shape[1] // speech.shape[1]
                times = (out["us_alphas"][index, :places], out["us_cif_peak"][index, :places])
            heard.append(_Heard(out["logits"][index, :count], times))
        return heard

    def _hypothesis(self, request: SegmentRequest, heard: _Heard) -> Hypothesis:
        ids = heard.logits.argmax(axis=1) if len(heard.logits) else np.empty(0, np.int64)
        kept = np.flatnonzero((ids != _BLANK) & (ids != _START) & (ids != _END))
        if not len(kept):
            return Hypothesis("", request.language)
        log_probabilities = _log_probabilities(heard.logits[kept], ids[kept])
        times = token_times(*heard.times, len(kept), len(request.samples)) if request.words and heard.times else []
        spans = times or [(0, 0)] * len(kept)
        tokens = [
            Token(self._vocabulary[token], *span, confidence)
            for token, span, confidence in zip(
                ids[kept].tolist(), spans, np.exp(log_probabilities).tolist(), strict=True
            )
            if self._vocabulary[token] != _UNKNOWN
        ]
        text, words = join(tokens)
        return Hypothesis(
            text,
            request.language or ("en" if text.isascii() else "zh"),
            float(np.exp(log_probabilities.mean())) if text else 0.0,
            words if times else (),
        )


def _company(index: int, bias: Floats | None) -> Hashable:
    """What requests must have alike to share a run; a long list of hot words takes none."""
    if bias is None:
        return None
    return len(bias) if len(bias) <= _FILTERED_ROWS else ("alone", index)


def _log_probabilities(logits: Floats, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Of each token, from logits of any scale; at most 0."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(ids)), ids] - np.log(np.exp(shifted).sum(axis=1))
    return np.asarray(np.minimum(chosen, 0.0), np.float64)
