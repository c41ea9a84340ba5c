"""OpenAI's bodies, made from results."""

import json

import pytest

from streamscribe.core.errors import ModelNotFound, Overloaded
from streamscribe.core.options import Task
from streamscribe.core.results import Result, ResultType, Word
from streamscribe.wire import rest


def final(number: int, text: str, language: str | None = "en", ms: int = 1000, confidence: float = 0.5) -> Result:
    return Result(
        type=ResultType.FINAL,
        pass_=1,
        segment_id=number,
        version=number + 1,
        sequence=0,
        channel=0,
        text=text,
        stable_chars=len(text),
        start_ms=number * 10_000,
        end_ms=number * 10_000 + ms,
        words=(Word(text, number * 10_000, number * 10_000 + ms, 0.5),),
        confidence=confidence,
        language=language,
    )


MIXED = (final(0, "Hello."), final(1, "你好。", "zh", ms=3000), final(2, "世界", "zh"), final(3, "ok"), final(4, "bye"))
TEXT = "Hello.你好。世界ok bye"


def test_texts_are_joined_as_their_scripts_want_it() -> None:
    assert rest.full_text(MIXED) == TEXT
    assert rest.full_text([final(0, "one"), final(1, "two")]) == "one two"
    assert rest.full_text([]) == ""


def test_deltas_in_a_row_are_the_whole_text() -> None:
    text = ""
    for result in MIXED:
        text += rest.delta(text, result).delta
    assert text == TEXT


def test_progress_and_segments_say_seconds() -> None:
    assert json.loads(rest.encode(rest.progress(1500, 3.00004))) == {
        "type": "streamscribe.progress",
        "processed_s": 1.5,
        "duration_s": 3.0,
    }
    assert json.loads(rest.encode(rest.progress(0, 0.0)))["duration_s"] is None
    assert json.loads(rest.encode(rest.segment_done(final(1, "two")))) == {
        "type": "transcript.text.segment",
        "id": "seg_1",
        "start": 10.0,
        "end": 11.0,
        "text": "two",
    }


def test_events_are_lines_of_json_under_data() -> None:
    line = rest.event(rest.delta("one", final(7, "two")))
    assert line.startswith(b"data: ")
    assert line.endswith(b"\n\n")
    assert json.loads(line[6:]) == {"type": "transcript.text.delta", "delta": " two", "segment_id": "seg_7"}
    done = json.loads(rest.event(rest.TextDone("one two", rest.usage(1.2)))[6:])
    assert done == {
        "type": "transcript.text.done",
        "text": "one two",
        "usage": {"type": "duration", "seconds": 2},
    }


def test_json_is_the_text_and_the_usage() -> None:
    assert json.loads(rest.encode(rest.transcription(MIXED, 44.01))) == {
        "text": TEXT,
        "usage": {"type": "duration", "seconds": 45},
    }


def verbose(*finals: Result, **asked: object) -> dict[str, object]:
    wanted = {"task": Task.TRANSCRIBE, "language": None, "segments": True, "words": False} | asked
    body: dict[str, object] = json.loads(rest.encode(rest.verbose(finals, 44.0, **wanted)))  # type: ignore[arg-type]
    return body


def test_verbose_json_has_all_of_whispers_fields() -> None:
    assert verbose(final(1, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))["segments"] == [
        {
            "id": 0,
            "seek": 1000,
            "start": 10.0,
            "end": 11.0,
            "text": "a" * 32,
            "tokens": [],
            "temperature": 0.0,
            "avg_logprob": -0.6931,
            "compression_ratio": pytest.approx(32 / 11, abs=0.5),
            "no_speech_prob": 0.0,
        }
    ]


def test_confidence_out_of_range_gives_no_impossible_logarithm() -> None:
    body = verbose(final(0, "a", confidence=0.0), final(1, "b", confidence=1.5))
    assert [one["avg_logprob"] for one in body["segments"]] == [0.0, 0.0]  # type: ignore[attr-defined]


def test_words_and_segments_are_there_when_asked_and_absent_when_not() -> None:
    body = verbose(*MIXED, segments=False, words=True)
    assert "segments" not in body
    assert body["words"][1] == {"word": "你好。", "start": 10.0, "end": 13.0}  # type: ignore[index]
    assert "words" not in verbose(*MIXED)
    assert verbose(words=True)["words"] == []


def test_the_language_is_the_one_asked_for_or_most_of_the_speech_or_unknown() -> None:
    assert verbose(*MIXED)["language"] == "zh"
    assert verbose(*MIXED, language="en")["language"] == "en"
    assert verbose(final(0, "x", None))["language"] == "und"
    assert verbose(*MIXED, task=Task.TRANSLATE)["language"] == "english"


def test_errors_name_their_field_code_and_kind() -> None:
    assert json.loads(rest.encode(rest.failure(ModelNotFound(field="model"))))["error"] == {
        "message": "the model is not served here",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert rest.failure(Overloaded()).error.type == "server_error"


def test_models_are_listed_as_openai_lists_them() -> None:
    assert json.loads(rest.encode(rest.models(["a"]))) == {
        "data": [{"id": "a", "object": "model", "created": 0, "owned_by": "streamscribe"}],
        "object": "list",
    }
