"""What OpenAI's audio API answers: bodies, events and errors, made from results. Times are seconds."""

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.options import Task
from streamscribe.core.results import Result
from streamscribe.core.script import join

_UNKNOWN_LANGUAGE = "und"


class Usage(msgspec.Struct, frozen=True):
    """What was used, in seconds of audio."""

    seconds: int
    type: str = "duration"


class Transcription(msgspec.Struct, frozen=True, omit_defaults=True):
    """Format `json`."""

    text: str
    usage: Usage | None = None


class Word(msgspec.Struct, frozen=True):
    """A word of `verbose_json`."""

    word: str
    start: float
    end: float


class Segment(msgspec.Struct, frozen=True):
    """A segment of `verbose_json`; fields that belong to Whisper's decoder have neutral values."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class VerboseTranscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """Format `verbose_json`; segments and words are None where they were not asked for."""

    task: str
    language: str
    duration: float
    text: str
    segments: tuple[Segment, ...] | None = None
    words: tuple[Word, ...] | None = None
    usage: Usage | None = None


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="transcript.text.delta"):
    """The stream's next piece of text, with the space that parts it from the last."""

    delta: str
    segment_id: str


class TextDone(msgspec.Struct, frozen=True, tag_field="type", tag="transcript.text.done"):
    """The whole text, at the end of the stream."""

    text: str
    usage: Usage


class SegmentDone(msgspec.Struct, frozen=True, tag_field="type", tag="transcript.text.segment"):
    """A segment with its times; in streams that asked for `progress`."""

    id: str
    start: float
    end: float
    text: str


class Progress(msgspec.Struct, frozen=True, tag_field="type", tag="streamscribe.progress"):
    """How much of the file is recognised; its duration is null where it does not say. Not OpenAI's: only when asked."""

    processed_s: float
    duration_s: float | None


class ErrorBody(msgspec.Struct, frozen=True):
    """What an error says."""

    message: str
    type: str
    param: str | None
    code: str


class Failure(msgspec.Struct, frozen=True):
    """The body of every response that is an error."""

    error: ErrorBody


class Model(msgspec.Struct, frozen=True):
    """An entry of the list of models."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "streamscribe"


class ModelList(msgspec.Struct, frozen=True):
    """The list of models."""

    data: tuple[Model, ...]
    object: str = "list"


DONE = b"data: [DONE]\n\n"
"""Ends a stream of events."""


def encode(body: msgspec.Struct) -> bytes:
    """The body as JSON."""
    return msgspec.json.encode(body)


def event(body: msgspec.Struct) -> bytes:
    """The body as a server-sent event."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def failure(error: StreamScribeError) -> Failure:
    """The body of an error."""
    kind = "server_error" if error.http_status >= 500 else "invalid_request_error"
    return Failure(ErrorBody(error.message, kind, error.field, error.code))


def usage(audio_s: float) -> Usage:
    """Usage of so much audio, in whole seconds begun."""
    return Usage(math.ceil(audio_s))


def full_text(finals: Iterable[Result]) -> str:
    """The texts of all segments in one, spaced as their scripts want it."""
    text = ""
    for final in finals:
        text = join(text, final.text)
    return text


def delta(before: str, final: Result) -> TextDelta:
    """What a segment adds to the text before it: all deltas in a row are the whole text."""
    return TextDelta(join(before, final.text)[len(before) :], _event_id(final))


def segment_done(final: Result) -> SegmentDone:
    """A segment, by the id of its delta."""
    return SegmentDone(_event_id(final), final.start_ms / 1000, final.end_ms / 1000, final.text)


def _event_id(final: Result) -> str:
    return f"seg_{final.segment_id}"


def progress(processed_ms: int, duration_s: float) -> Progress:
    """Progress in a file of `duration_s`, 0 for one that does not say its length."""
    return Progress(processed_ms / 1000, round(duration_s, 3) or None)


def transcription(finals: Sequence[Result], audio_s: float) -> Transcription:
    """Format `json`."""
    return Transcription(full_text(finals), usage(audio_s))


def verbose(
    finals: Sequence[Result], audio_s: float, *, task: Task, language: str | None, segments: bool, words: bool
) -> VerboseTranscription:
    """Format `verbose_json`. `language` is what the client named; else the one that most of the speech is in."""
    return VerboseTranscription(
        task=task.value,
        language="english" if task is Task.TRANSLATE else language or _spoken(finals),
        duration=round(audio_s, 3),
        text=full_text(finals),
        segments=tuple(_segment(number, final) for number, final in enumerate(finals)) if segments else None,
        words=tuple(_words(finals)) if words else None,
        usage=usage(audio_s),
    )


def _segment(number: int, final: Result) -> Segment:
    return Segment(
        id=number,
        seek=final.start_ms // 10,
        start=final.start_ms / 1000,
        end=final.end_ms / 1000,
        text=final.text,
        tokens=(),
        temperature=0.0,
        avg_logprob=round(math.log(min(1.0, final.confidence)), 4) if final.confidence > 0 else 0.0,
        compression_ratio=_compression_ratio(final.text),
        no_speech_prob=0.0,
    )


def _compression_ratio(text: str) -> float:
    """Whisper's measure of how repetitive a text is; about 1 for speech, above 2.4 for loops."""
    data = text.encode()
    return round(len(data) / len(zlib.compress(data)), 4)


def _words(finals: Sequence[Result]) -> Iterable[Word]:
    for final in finals:
        for word in final.words:
            yield Word(word.text, word.start_ms / 1000, word.end_ms / 1000)


def _spoken(finals: Sequence[Result]) -> str:
    spoken_ms: Counter[str] = Counter()
    for final in finals:
        if final.language:
            spoken_ms[final.language] += final.end_ms - final.start_ms
    return spoken_ms.most_common(1)[0][0] if spoken_ms else _UNKNOWN_LANGUAGE


def models(ids: Sequence[str]) -> ModelList:
    """The list of models."""
    return ModelList(tuple(Model(name) for name in ids))
