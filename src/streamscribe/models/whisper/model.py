"""Whisper on CTranslate2: the engine behind the `EncoderDecoder` port.

Its encoder reads only as much as there is audio and three seconds of silence, at a fraction of the cost of 30 s. Alone
that makes the decoder loop, for it was never shown such short windows: so before decoding, the encoding of silence is
put behind, up to the 30 s that it knows. A final that the model is not sure of is listened to again in a full window.
docs/experiments/whisper-frames.md has the figures.
"""

import itertools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import ctranslate2
import numpy as np
import numpy.typing as npt

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong
from streamscribe.models.guards import loop_start
from streamscribe.models.ports import Hypothesis, HypothesisWord, SegmentRequest
from streamscribe.models.whisper import guards
from streamscribe.models.whisper.features import FRAMES_PER_SECOND, HOP_SAMPLES, MAX_FRAMES, Mel, log_mel
from streamscribe.models.whisper.vocabulary import Piece, Vocabulary
from streamscribe.models.whisper.word_times import words

Encoding = npt.NDArray[np.float32]
"""Encoder output of one segment, as (positions of 20 ms, width); shorter than 30 s, without the silence behind."""

_POSITIONS = MAX_FRAMES // 2
_SILENCE_LEVEL = -0.625
"""What silence after speech of usual loudness is in a log-mel spectrogram (its maximum less 8, scaled)."""

_TAIL_FRAMES = 3 * FRAMES_PER_SECOND
_SURE = 0.65
"""Confidence from which a short window's text is as right as the full one's; telephone prompts lie above, most noise,
single words and digits below."""

_BEAM = 5
_TEXT_POSITIONS = 448
"""The decoder's positions; CTranslate2 keeps half of what it is told for the prompt."""
_T = TypeVar("_T")


@dataclass(slots=True)
class _Job:
    """One request on its way through the decoder; each look at it adds to `no_speech` and `doubts`."""

    index: int
    request: SegmentRequest
    encoding: Encoding
    language: str = ""
    hotwords: Sequence[int] = ()
    prompt: Sequence[int] = ()
    limit: int = 0
    tokens: Sequence[int] = ()
    pieces: Sequence[Piece] = ()
    log_probability: float = 0.0
    no_speech: list[float] = field(default_factory=list)
    doubts: list[bool] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces).strip()

    @property
    def confidence(self) -> float:
        return min(1.0, math.exp(self.log_probability))

    @property
    def astray(self) -> bool:
        return guards.is_degenerate(self.tokens, self.text, self.limit)

    @property
    def unsure(self) -> bool:
        return self.astray or self.confidence < _SURE

    @property
    def nobody_spoke(self) -> bool:
        return all(self.doubts) and guards.is_no_speech(self.no_speech)


class WhisperModel:
    """Encodes and decodes segments of up to 30 s. Not thread-safe: one thread owns it."""

    def __init__(self, files: Mapping[str, Path], *, threads: int, compute_type: str = "int8") -> None:
        """Loads a CTranslate2 model from its verified files; `threads` work at one step."""
        config = json.loads(files["config.json"].read_bytes())
        self._vocabulary = Vocabulary(files["tokenizer.json"], config["lang_ids"])
        self._model = ctranslate2.models.Whisper(
            str(files["model.bin"].parent), device="cpu", compute_type=compute_type, intra_threads=threads
        )
        self._silence: Encoding | None = None

    @property
    def max_samples(self) -> int:
        """30 s: Whisper's window."""
        return 30 * SAMPLE_RATE

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        self._vocabulary.language(code)

    def features(self, request: SegmentRequest) -> Mel:
        """The log-mel spectrogram of the segment and three to four seconds of silence, in whole seconds.

        Raises AudioTooLong for more than `max_samples`.
        """
        size = len(request.samples)
        if size > self.max_samples:
            raise AudioTooLong("a segment is longer than 30 s")
        frames = -(-size // SAMPLE_RATE) * FRAMES_PER_SECOND + _TAIL_FRAMES
        return log_mel(request.samples, min(MAX_FRAMES, frames), self._model.n_mels)

    def encode(self, batch: Sequence[Mel]) -> list[Encoding]:
        """The encoder's output, one each; segments of equal length share a pass."""
        outputs: dict[int, Encoding] = {}
        for group in _grouped(range(len(batch)), lambda index: batch[index].shape):
            view = ctranslate2.StorageView.from_array(np.stack([batch[index] for index in group]))
            encoded = np.array(self._model.encode(view, to_cpu=True), dtype=np.float32)
            outputs.update(zip(group, encoded, strict=True))
        return [outputs[index] for index in range(len(batch))]

    def decode(self, batch: Sequence[tuple[SegmentRequest, Encoding]]) -> list[Hypothesis]:
        """What was said, one hypothesis each; raises BadRequest for a language that the model does not know."""
        jobs = [_Job(index, request, encoding) for index, (request, encoding) in enumerate(batch)]
        for job in jobs:
            job.language = self._vocabulary.language(job.request.language) if job.request.language else ""
        heard = [job for job in jobs if not guards.is_silent(job.request.samples)]
        self._recognise_languages([job for job in heard if not job.language])
        for job in heard:
            job.prompt = self._vocabulary.task_prompt(job.language, job.request.task)
            job.limit = guards.token_limit(job.request.samples)
        self._listen(heard)
        self._listen_again([job for job in heard if job.unsure and not job.request.draft])
        spoken = [job for job in heard if not job.nobody_spoke]
        self._repair([job for job in spoken if job.astray])
        hypotheses = [Hypothesis("", job.request.language) for job in jobs]
        for job in spoken:
            if job.text:
                timed = self._words(job) if job.request.words else ()
                hypotheses[job.index] = Hypothesis(job.text, job.language, job.confidence, timed)
        return hypotheses

    def _recognise_languages(self, jobs: Sequence[_Job]) -> None:
        if jobs:
            ranked = self._model.detect_language(self._padded(jobs))
            for job, ranking in zip(jobs, ranked, strict=True):
                job.language = ranking[0][0][2:-2]

    def _listen(self, jobs: Sequence[_Job]) -> None:
        """Decodes; with hot words only where somebody speaks, for with them the model hears them in any noise."""
        biased = [job for job in jobs if job.request.hotwords]
        if biased:
            plain = self._run(biased, [job.prompt for job in biased], 1, beam_size=1)
            for job, result in zip(biased, plain, strict=True):
                job.no_speech.append(result.no_speech_prob)
                prompt = self._vocabulary.hotword_prompt(job.request.hotwords, job.language)
                job.hotwords = () if guards.is_no_speech(job.no_speech) else prompt
        no_speech = self._generate(jobs)
        for job in jobs:
            if not job.request.hotwords:
                job.no_speech.append(no_speech[job.index])
            job.doubts.append(guards.is_doubtful(job.tokens, job.log_probability, astray=job.astray))

    def _listen_again(self, jobs: Sequence[_Job]) -> None:
        """Decodes from an encoding of the full window, which is what Whisper knows best."""
        mels = [log_mel(job.request.samples, MAX_FRAMES, self._model.n_mels) for job in jobs]
        for job, encoding in zip(jobs, self.encode(mels), strict=True):
            job.encoding = encoding
        self._listen(jobs)

    def _generate(self, jobs: Iterable[_Job], **how: float) -> dict[int, float]:
        """Decodes; jobs share a pass where their prompts have one length and their search is the same.

        Returns the probability that nobody speaks, by the job's index.
        """
        no_speech: dict[int, float] = {}
        for group in _grouped(jobs, lambda job: (len(job.hotwords), job.request.draft)):
            beam = 1 if group[0].request.draft or how else _BEAM
            prompts = [[*job.hotwords, *job.prompt] for job in group]
            results = self._run(group, prompts, max(job.limit for job in group), beam_size=beam, **how)
            for job, result in zip(group, results, strict=True):
                job.tokens = [token for token in result.sequences_ids[0] if token < self._vocabulary.end_of_text]
                job.pieces = self._vocabulary.pieces(job.tokens)
                job.log_probability = result.scores[0]
                no_speech[job.index] = result.no_speech_prob
        return no_speech

    def _run(self, jobs: Sequence[_Job], prompts: Sequence[Sequence[int]], limit: int, **how: float) -> Sequence[Any]:
        """One pass of the decoder that writes at most `limit` tokens; the prompts have one length."""
        results: Sequence[Any] = self._model.generate(
            self._padded(jobs),
            prompts,
            max_length=min(_TEXT_POSITIONS, max(2 * limit, limit + len(prompts[0]))),
            return_scores=True,
            return_no_speech_prob=True,
            **how,
        )
        return results

    def _repair(self, jobs: Sequence[_Job]) -> None:
        """Decodes astray finals again so that nothing can repeat; what is still astray is cut."""
        again = [job for job in jobs if not job.request.draft]
        for job in again:
            job.hotwords = ()
        self._generate(again, no_repeat_ngram_size=3, repetition_penalty=1.1)
        for job in jobs:
            job.tokens = job.tokens[: min(job.limit, loop_start(job.tokens) or job.limit)]
            job.pieces = self._vocabulary.pieces(job.tokens)

    def _words(self, job: _Job) -> tuple[HypothesisWord, ...]:
        """The job's words with their times. One job at a time: in a batch, texts of other lengths move the times."""
        size = len(job.request.samples)
        frames = -(-size // HOP_SAMPLES)
        aligned = self._model.align(self._padded([job]), job.prompt, [list(job.tokens)], frames)[0]
        positions = _token_positions(aligned.alignments, len(job.tokens))
        return words(job.pieces, positions, aligned.text_token_probs, size)

    def _padded(self, jobs: Sequence[_Job]) -> ctranslate2.StorageView:
        """The jobs' encodings with the encoding of silence behind, up to 30 s."""
        if self._silence is None:
            level = np.full((self._model.n_mels, MAX_FRAMES), _SILENCE_LEVEL, dtype=np.float32)
            self._silence = self.encode([level])[0]
        stacked = np.repeat(self._silence[None], len(jobs), axis=0)
        for row, job in zip(stacked, jobs, strict=True):
            row[: min(_POSITIONS, len(job.encoding))] = job.encoding
        return ctranslate2.StorageView.from_array(stacked)


def _token_positions(alignments: Sequence[tuple[int, int]], tokens: int) -> list[int]:
    """The encoder position where each token begins, and where the last one ends."""
    begins = [0] * (tokens + 1)
    seen = -1
    for token, position in alignments:
        for missed in range(seen + 1, min(token, tokens) + 1):
            begins[missed] = position
        seen = max(seen, token)
    last = alignments[-1][1] if alignments else 0
    for missed in range(seen + 1, tokens + 1):
        begins[missed] = last
    return list(itertools.accumulate(begins, max))


def _grouped(items: Iterable[_T], key: Callable[[_T], Hashable]) -> Iterator[list[_T]]:
    """The items in groups of equal keys, in order of appearance."""
    groups: dict[Hashable, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    yield from groups.values()
