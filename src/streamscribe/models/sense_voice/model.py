"""SenseVoiceSmall on ONNX Runtime: an encoder with CTC, which tells language, emotion and events before the text."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import yaml

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong, BadRequest
from streamscribe.core.tokens import Token
from streamscribe.models.lfr import FRONT_END, STRIDE, SegmentFrontend, padded
from streamscribe.models.onnx_session import open_session, read_graph
from streamscribe.models.ports import FRAME_SHIFT_SAMPLES, Hypothesis, Identity, SegmentRequest
from streamscribe.models.sense_voice.pieces import tag_of, text_of, words_of

Floats = npt.NDArray[np.float32]

LANGUAGES = {"zh": 3, "en": 4, "yue": 7, "ja": 11, "ko": 12}
ANY_LANGUAGE = 0
WITH_ITN, WITHOUT_ITN = 14, 15
"""The rows of the model's query table, which every SenseVoiceSmall has alike."""

MAX_SAMPLES = 30 * SAMPLE_RATE

_QUERIES = 4
"""Rows of the output before those of the audio: language, emotion, event, and whether numbers are in digits."""
_BLANK = 0
"""CTC's token for nothing."""
_ROW_SAMPLES = STRIDE * FRAME_SHIFT_SAMPLES
_TIME_SHIFT_SAMPLES = -_ROW_SAMPLES // 2
"""FunASR tells tokens half a row earlier than their rows begin."""
_NOTHING_TOLD = frozenset(("emo_unknown", "event_unk", "speech", "nospeech", "withitn", "woitn"))
_MARK = re.compile(r"[，。？！、；：?!;]|[.,](?!\d)")


class OnnxSenseVoice:
    """FunASR's SenseVoiceSmall; not thread-safe."""

    def __init__(self, files: Mapping[str, Path], *, threads: int = 1, tail_padding_ms: int = 0) -> None:
        """Builds it from `model.onnx` or `model_quant.onnx`, `am.mvn`, `tokens.json` and `config.yaml`.

        Raises ModelUnavailable for another kind of model.
        """
        self.tail_padding_ms = tail_padding_ms
        config = yaml.safe_load(files["config.yaml"].read_text(encoding="utf-8"))
        self._frontend = SegmentFrontend(config, files["am.mvn"])
        self._vocabulary: list[str] = json.loads(files["tokens.json"].read_bytes())
        self._session = open_session(read_graph(files), threads=threads)

    @property
    def identity(self) -> Identity:
        """FunASR's SenseVoice in ONNX Runtime; the graph and its arithmetic are the weights'."""
        return ("sense-voice", 1, onnxruntime.__version__, "cpu", *FRONT_END)

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    @property
    def max_samples(self) -> int:
        """30 s, the longest that it was trained on."""
        return MAX_SAMPLES

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        _language(code)

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order; equal requests give equal hypotheses whatever the batch.

        Raises AudioTooLong for more than `max_samples`, BadRequest for an unknown language.
        """
        if any(len(request.samples) > self.max_samples for request in batch):
            raise AudioTooLong("a segment is longer than 30 s")
        hypotheses = [Hypothesis("", request.language) for request in batch]
        rows = [self._frontend.rows(request) for request in batch]
        members = [index for index, segment in enumerate(rows) if len(segment)]
        if not members:
            return hypotheses
        speech, lengths = padded([rows[index] for index in members])
        requests = [batch[index] for index in members]
        logits, ends = self._session.run(
            None,
            {
                "speech": speech,
                "speech_lengths": lengths,
                "language": np.array(
                    [_language(r.language) if r.language else ANY_LANGUAGE for r in requests], np.int32
                ),
                "textnorm": np.array([WITH_ITN if r.itn else WITHOUT_ITN for r in requests], np.int32),
            },
        )
        for index, scores, end in zip(members, logits, ends.tolist(), strict=True):
            hypotheses[index] = self._hypothesis(batch[index], scores[:end])
        return hypotheses

    def _hypothesis(self, request: SegmentRequest, scores: Floats) -> Hypothesis:
        """Reads the scores of the four queries and of each row; the best token of a row is taken."""
        best = scores.argmax(axis=1).tolist()
        tags = [tag_of(self._vocabulary[token]) for token in best[:_QUERIES]]
        tokens = self._tokens(scores[_QUERIES:], best[_QUERIES:], len(request.samples))
        spoken = [token for token in tokens if tag_of(token.text) is None]
        text = text_of([token.text for token in spoken])
        told = [tags[0], tags[1], tags[2], *(tag_of(token.text) for token in tokens)]
        language, emotion, *events = [
            None if tag is None or tag.lower() in _NOTHING_TOLD else tag.lower() for tag in told
        ]
        return Hypothesis(
            text,
            request.language or language,
            float(np.exp(np.mean(np.log([token.confidence for token in spoken])))) if text else 0.0,
            words_of(spoken) if request.words else (),
            punctuated=request.itn and _MARK.search(text) is not None,
            emotion=emotion,
            events=tuple(dict.fromkeys(event for event in events if event)),
        )

    def _tokens(self, scores: Floats, best: Sequence[int], samples: int) -> list[Token]:
        """A token for each run of rows with one best token; its times are FunASR's, its confidence its best row's."""
        shifted = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
        confidences = 1 / np.exp(shifted).sum(axis=1)
        tokens = []
        for token, run in groupby(range(len(best)), key=best.__getitem__):
            places = list(run)
            if token != _BLANK:
                start, end = (place * _ROW_SAMPLES + _TIME_SHIFT_SAMPLES for place in (places[0], places[-1] + 1))
                tokens.append(
                    Token(
                        self._vocabulary[token],
                        min(max(start, 0), samples),
                        min(end, samples),
                        float(confidences[places].max()),
                    )
                )
        return tokens


def _language(code: str) -> int:
    row = LANGUAGES.get(code.lower().replace("_", "-").partition("-")[0])
    if row is None:
        raise BadRequest("language is not one that this model knows", field="language")
    return row
