"""CT-Transformer on ONNX Runtime behind the platform's port: many texts in one run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import yaml

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.tokens import Mark
from streamscribe.models.ct_transformer.sentences import Sentences
from streamscribe.models.onnx_session import open_session, read_graph
from streamscribe.models.ports import Identity

Feed = dict[str, npt.NDArray[np.int32] | npt.NDArray[np.float32]]

_WRITTEN = {",": "，", "?": "？", "<unk>": "_"}
"""The model's marks, as far as its list writes them otherwise than they are meant."""


class OnnxPunctuator:
    """FunASR's offline CT-Transformer; marks equal FunASR's. Not thread-safe."""

    def __init__(self, files: Mapping[str, Path], *, threads: int = 1) -> None:
        """Builds it from `model.onnx` or `model_quant.onnx`, `tokens.json` and `config.yaml`.

        Raises ModelUnavailable for a model that reads words of several characters.
        """
        if "jieba_usr_dict" in files:
            raise ModelUnavailable("punctuation models that need jieba are not supported")
        config = yaml.safe_load(files["config.yaml"].read_text(encoding="utf-8"))
        self._marks = [_WRITTEN.get(mark, mark) for mark in config["model_conf"]["punc_list"]]
        tokens: list[str] = json.loads(files["tokens.json"].read_bytes())
        self._ids = {token: index for index, token in enumerate(tokens)}
        graph = read_graph(files)
        for value in (*graph.graph.input, *graph.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "batch"  # the realtime export names a batch of one
        self._session = open_session(graph, threads=threads)

    @property
    def identity(self) -> Identity:
        """FunASR's CT-Transformer in ONNX Runtime; the graph and its arithmetic are the weights'."""
        return ("ct-transformer", 1, onnxruntime.__version__, np.__version__, "cpu")

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        """The marks of each text, in order; equal texts get equal marks whatever the batch.

        Chinese marks behind Chinese characters, English ones behind English words; the last one ends a sentence.
        """
        texts = [Sentences(text) for text in batch]
        pending = [(text, words) for text in texts if (words := text.window())]
        while pending:
            for (text, _), marks in zip(pending, self._read([words for _, words in pending]), strict=True):
                text.take(marks)
            pending = [(text, words) for text, _ in pending if (words := text.window())]
        return [text.marks() for text in texts]

    def _read(self, windows: Sequence[Sequence[str]]) -> list[list[str]]:
        lengths = np.array([len(words) for words in windows], np.int32)
        ids = np.zeros((len(windows), lengths.max()), np.int32)
        unknown = self._ids["<unk>"]
        for row, words in zip(ids, windows, strict=True):
            row[: len(words)] = [self._ids.get(word, unknown) for word in words]
        (logits,) = self._session.run(None, self._feed(ids, lengths))
        chosen = logits.argmax(axis=2).tolist()
        return [[self._marks[mark] for mark in row[:length]] for row, length in zip(chosen, lengths, strict=True)]

    def _feed(self, ids: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> Feed:
        return {"inputs": ids, "text_lengths": lengths}


class OnnxRealtimePunctuator(OnnxPunctuator):
    """FunASR's realtime CT-Transformer: all layers but the last look back only.

    Marks equal FunASR's but for the last one, which FunASR leaves out since a text may go on.
    """

    def _feed(self, ids: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> Feed:
        """Adds which words each word may look at: in the last layer all of its text, in the others those before."""
        size = ids.shape[1]
        of_text = (np.arange(size) < lengths[:, np.newaxis]).astype(np.float32)[:, np.newaxis, np.newaxis, :]
        everything = np.repeat(of_text, size, axis=2)
        return {
            "inputs": ids,
            "text_lengths": lengths,
            "vad_masks": everything,
            "sub_masks": np.tril(everything),
        }
