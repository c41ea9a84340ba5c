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

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong
from streamscribe.core.options import Task
from streamscribe.models.guards import loop_start
from streamscribe.models.ports import (
    DecodeRequest,
    Embedding,
    Frames,
    Hypothesis,
    HypothesisWord,
    Identity,
    LookAgain,
    Samples,
    Window,
)
from streamscribe.models.whisper import guards
from streamscribe.models.whisper.features import FRAMES_PER_SECOND, HOP_SAMPLES, MAX_FRAMES, Mel, log_mel
from streamscribe.models.whisper.vocabulary import Piece, Vocabulary
from streamscribe.models.whisper.word_times import words

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


@dataclass(frozen=True, slots=True)
class Look:
    """What the first look at a segment found, which the second one adds to."""

    language: str
    no_speech: tuple[float, ...]
    doubts: tuple[bool, ...]


@dataclass(slots=True)
class _Job:
    """One request on its way through the decoder; each look at it adds to `no_speech` and `doubts`."""

    index: int
    request: DecodeRequest
    language: str = ""
    spoken: Sequence[int] = ()
    earlier: Sequence[int] = ()
    prompt: Sequence[int] = ()
    limit: int = 0
    tokens: Sequence[int] = ()
    pieces: Sequence[Piece] = ()
    log_probability: float = 0.0
    no_speech: list[float] = field(default_factory=list)
    doubts: list[bool] = field(default_factory=list)

    @property
    def biased(self) -> bool:
        return bool(self.request.hotwords or self.request.context)

    @property
    def written(self) -> str:
        """The language of its text, and of those before it."""
        return "en" if self.request.task is Task.TRANSLATE else self.language

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
    def wants_another_look(self) -> bool:
        """Whether the full window may tell more: not to a draft, and not where that is what was read."""
        request = self.request
        return self.unsure and not request.draft and not request.looked and len(request.embedding) < _POSITIONS

    @property
    def nobody_spoke(self) -> bool:
        doubtful = all(self.doubts) or guards.stammers(self.tokens)
        return doubtful and guards.is_no_speech(self.no_speech)


class WhisperModel:
    """Encodes and decodes segments of up to 30 s. One thread may encode while another decodes."""

    def __init__(self, files: Mapping[str, Path], *, threads: int, compute_type: str = "int8") -> None:
        """Loads a CTranslate2 model from its verified files.

        Two passes run side by side, with half of the `threads` each: an encoding beside a decoding, or two decodings.
        One pass on all threads at a time costs more, and both wait for it.
        """
        config = json.loads(files["config.json"].read_bytes())
        self._vocabulary = Vocabulary(files["tokenizer.json"], config["lang_ids"])
        self._model = ctranslate2.models.Whisper(
            str(files["model.bin"].parent),
            device="cpu",
            compute_type=compute_type,
            inter_threads=2,
            intra_threads=-(-threads // 2),
        )
        level = np.full((self._model.n_mels, MAX_FRAMES), _SILENCE_LEVEL, dtype=np.float32)
        self._silence = self.encode([level])[0]

    @property
    def max_samples(self) -> int:
        """30 s: Whisper's window."""
        return 30 * SAMPLE_RATE

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        self._vocabulary.language(code)

    @property
    def front_end(self) -> Identity:
        """The log-mel spectrogram, its bands, and numpy, which computes it."""
        return ("log-mel", 1, self._model.n_mels, np.__version__)

    @property
    def encoder_identity(self) -> Identity:
        """Whisper on CTranslate2, its arithmetic, and how much silence is read behind the audio."""
        return ("whisper", 1, ctranslate2.__version__, "cpu", self._model.compute_type, _TAIL_FRAMES, *self.front_end)

    @property
    def decoder_identity(self) -> Identity:
        """The decoder's search, arithmetic and guards."""
        return ("whisper", 2, ctranslate2.__version__, "cpu", self._model.compute_type, _BEAM)

    @property
    def width(self) -> int:
        """Columns of an embedding."""
        return int(self._silence.shape[1])

    def num_tokens(self, samples: int, window: Window = Window.SHORT) -> int:
        """A position for each 20 ms of what is read."""
        return _frames_read(samples, window) // 2

    def features(self, samples: Samples, frames: Frames | None = None, window: Window = Window.SHORT) -> Mel:
        """The log-mel spectrogram of the segment and three to four seconds of silence, in whole seconds.

        In a full window there is silence up to 30 s. `frames` of another kind are of no use here. Raises AudioTooLong
        for more than `max_samples`.
        """
        if len(samples) > self.max_samples:
            raise AudioTooLong("a segment is longer than 30 s")
        return log_mel(samples, _frames_read(len(samples), window), self._model.n_mels)

    def group(self, features: Mel) -> Hashable:
        """Only segments of equal length share a pass: padding would be heard."""
        return features.shape

    def encode(self, batch: Sequence[Mel]) -> list[Embedding]:
        """The encoder's output, one each; segments of equal length share a pass."""
        outputs: dict[int, Embedding] = {}
        for group in _grouped(range(len(batch)), lambda index: batch[index].shape):
            view = ctranslate2.StorageView.from_array(np.stack([batch[index] for index in group]))
            encoded = np.array(self._model.encode(view, to_cpu=True), dtype=np.float32)
            outputs.update(zip(group, encoded, strict=True))
        return [outputs[index] for index in range(len(batch))]

    def decode(self, batch: Sequence[DecodeRequest]) -> list[Hypothesis | LookAgain]:
        """What was said, one hypothesis each; raises BadRequest for a language that the model does not know.

        A final that it is not sure of it wants to read in a full window.
        """
        jobs = [_Job(index, request) for index, request in enumerate(batch)]
        answers: list[Hypothesis | LookAgain] = [Hypothesis("", request.language) for request in batch]
        heard = [job for job in jobs if not job.request.silent]
        for job in heard:
            self._recall(job)
        self._recognise_languages([job for job in heard if not job.language])
        for job in heard:
            job.prompt = self._vocabulary.task_prompt(job.language, job.request.task)
            job.limit = guards.token_limit(job.request.num_samples)
        self._listen(heard)
        decided = []
        for job in heard:
            if job.wants_another_look:
                look = Look(job.language, tuple(job.no_speech), tuple(job.doubts))
                answers[job.index] = LookAgain(Window.FULL, look)
            elif not job.nobody_spoke:
                decided.append(job)
        self._repair([job for job in decided if job.astray])
        for job in decided:
            if job.text:
                timed = self._words(job) if job.request.words else ()
                answers[job.index] = Hypothesis(job.text, job.language, job.confidence, timed)
        return answers

    def _recall(self, job: _Job) -> None:
        """What is known of the job before it is decoded: the language, from an earlier look or the request."""
        look: Look | None = job.request.looked
        if look is not None:
            job.language, job.no_speech, job.doubts = look.language, [*look.no_speech], [*look.doubts]
        elif job.request.language:
            job.language = self._vocabulary.language(job.request.language)

    def _recognise_languages(self, jobs: Sequence[_Job]) -> None:
        if jobs:
            ranked = self._model.detect_language(self._padded(jobs))
            for job, ranking in zip(jobs, ranked, strict=True):
                job.language = ranking[0][0][2:-2]

    def _listen(self, jobs: Sequence[_Job]) -> None:
        """Decodes; with hot words and earlier text only where somebody speaks: the model hears them in any noise.

        Where a text is but an echo of the earlier one, it is decoded again without.
        """
        biased = [job for job in jobs if job.biased]
        if biased:
            plain = self._run(biased, [job.prompt for job in biased], {"beam_size": 1}, limit=1)
            for job, result in zip(biased, plain, strict=True):
                job.no_speech.append(result.no_speech_prob)
                job.spoken = self._vocabulary.context_tokens(job.request.context, job.written)
                prompt = self._vocabulary.earlier_prompt(job.request.hotwords, job.spoken, job.language)
                job.earlier = () if guards.is_no_speech(job.no_speech) else prompt
        no_speech = self._generate(jobs)
        echoes = [job for job in biased if job.earlier and guards.is_echo(job.tokens, job.spoken)]
        for job in echoes:
            job.earlier = self._vocabulary.earlier_prompt(job.request.hotwords, (), job.language)
        self._generate(echoes)
        for job in jobs:
            if not job.biased:
                job.no_speech.append(no_speech[job.index])
            job.doubts.append(guards.is_doubtful(job.tokens, job.log_probability, astray=job.astray))

    def _generate(self, jobs: Iterable[_Job], **how: float) -> dict[int, float]:
        """Decodes; jobs share a pass where their prompts have one length and their search is the same.

        Returns the probability that nobody speaks, by the job's index.
        """
        no_speech: dict[int, float] = {}
        for group in _grouped(jobs, lambda job: (len(job.earlier), job.request.draft)):
            beam = 1 if group[0].request.draft or how else _BEAM
            prompts = [[*job.earlier, *job.prompt] for job in group]
            for job, result in zip(group, self._run(group, prompts, {"beam_size": beam, **how}), strict=True):
                job.tokens = [token for token in result.sequences_ids[0] if token < self._vocabulary.end_of_text]
                job.pieces = self._vocabulary.pieces(job.tokens)
                job.log_probability = result.scores[0]
                no_speech[job.index] = result.no_speech_prob
        return no_speech

    def _run(
        self, jobs: Sequence[_Job], prompts: Sequence[Sequence[int]], how: Mapping[str, float], limit: int | None = None
    ) -> Sequence[Any]:
        """One result a job, of at most `limit` tokens, else its own limit; the prompts have one length.

        The longer half and the shorter one are decoded side by side: a decoder writes token after token, and one thread
        for each half writes more of them than two threads for a whole.
        """
        by_length = sorted(range(len(jobs)), key=lambda at: jobs[at].request.num_samples, reverse=True)
        halves = [half for half in (by_length[: -(-len(jobs) // 2)], by_length[-(-len(jobs) // 2) :]) if half]
        passes = [self._begin([jobs[at] for at in half], [prompts[at] for at in half], how, limit) for half in halves]
        results: dict[int, Any] = {}
        for half, running in zip(halves, passes, strict=True):
            results.update(zip(half, (one.result() for one in running), strict=True))
        return [results[at] for at in range(len(jobs))]

    def _begin(
        self, jobs: Sequence[_Job], prompts: Sequence[Sequence[int]], how: Mapping[str, float], limit: int | None
    ) -> Sequence[Any]:
        """A pass of the decoder on one of its threads: a promise for each job."""
        tokens = max(job.limit for job in jobs) if limit is None else limit
        promises: Sequence[Any] = self._model.generate(
            self._padded(jobs),
            prompts,
            asynchronous=True,
            max_length=min(_TEXT_POSITIONS, max(2 * tokens, tokens + len(prompts[0]))),
            return_scores=True,
            return_no_speech_prob=True,
            **how,
        )
        return promises

    def _repair(self, jobs: Sequence[_Job]) -> None:
        """Decodes astray finals again so that nothing can repeat; what is still astray is cut."""
        again = [job for job in jobs if not job.request.draft]
        for job in again:
            job.earlier = ()
        self._generate(again, no_repeat_ngram_size=3, repetition_penalty=1.1)
        for job in jobs:
            job.tokens = job.tokens[: min(job.limit, loop_start(job.tokens) or job.limit)]
            job.pieces = self._vocabulary.pieces(job.tokens)

    def _words(self, job: _Job) -> tuple[HypothesisWord, ...]:
        """The job's words with their times. One job at a time: in a batch, texts of other lengths move the times."""
        size = job.request.num_samples
        frames = -(-size // HOP_SAMPLES)
        aligned = self._model.align(self._padded([job]), job.prompt, [list(job.tokens)], frames)[0]
        positions = _token_positions(aligned.alignments, len(job.tokens))
        return words(job.pieces, positions, aligned.text_token_probs, size)

    def _padded(self, jobs: Sequence[_Job]) -> ctranslate2.StorageView:
        """The jobs' encodings with the encoding of silence behind, up to 30 s."""
        stacked = np.repeat(self._silence[None], len(jobs), axis=0)
        for row, job in zip(stacked, jobs, strict=True):
            row[: len(job.request.embedding)] = job.request.embedding
        return ctranslate2.StorageView.from_array(stacked)


def _frames_read(samples: int, window: Window) -> int:
    """Frames of 10 ms: in a short window the audio and the silence behind it, in whole seconds."""
    if window is Window.FULL:
        return MAX_FRAMES
    return min(MAX_FRAMES, -(-samples // SAMPLE_RATE) * FRAMES_PER_SECOND + _TAIL_FRAMES)


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
