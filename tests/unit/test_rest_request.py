"""Every spelling of OpenAI's form, and what each field allows."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import BadRequest, ModelNotFound, StreamScribeError
from streamscribe.core.options import MAX_HOTWORDS, Hotword, Mode, SessionOptions, Task
from streamscribe.wire.rest_request import MAX_PROMPT_CHARS, ResponseFormat, TranscriptionRequest, read_request

MODELS = ("whisper-1", "whisper-base")


def read(*pairs: tuple[str, str]) -> TranscriptionRequest:
    return read_request(pairs, Task.TRANSCRIBE, MODELS)


def phrases(*pairs: tuple[str, str]) -> list[str]:
    return [hotword.phrase for hotword in read(*pairs).options.hotwords]


def refusal(*pairs: tuple[str, str]) -> StreamScribeError:
    with pytest.raises(BadRequest) as caught:
        read(*pairs)
    return caught.value


def test_an_empty_form_has_openais_defaults_and_is_a_file() -> None:
    request = read()
    assert request == TranscriptionRequest(SessionOptions(mode=Mode.OFFLINE, live=False))
    assert (request.format, request.stream, request.segments, request.words) == (
        ResponseFormat.JSON,
        False,
        True,
        False,
    )


def test_the_task_is_the_routes() -> None:
    assert read_request([], Task.TRANSLATE, MODELS).options.task is Task.TRANSLATE


@pytest.mark.parametrize(
    "pairs",
    [
        [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")],
        [("timestamp_granularities", "word"), ("timestamp_granularities", "segment")],
        [("timestamp_granularities[0]", "word"), ("timestamp_granularities[1]", "segment")],
        [("timestamp_granularities", '["word", "segment"]')],
        [("timestamp_granularities", "word,segment")],
    ],
)
def test_lists_are_read_in_every_spelling(pairs: list[tuple[str, str]]) -> None:
    request = read(("response_format", "verbose_json"), *pairs)
    assert request.words
    assert request.segments
    assert request.options.words


def test_words_alone_leave_out_segments_and_are_for_verbose_json_and_subtitles_only() -> None:
    request = read(("response_format", "verbose_json"), ("timestamp_granularities[]", "word"))
    assert (request.words, request.segments) == (True, False)
    assert not read(("response_format", "text"), ("timestamp_granularities[]", "word")).options.words
    assert read(("response_format", "srt")).options.words


@pytest.mark.parametrize(
    "pairs",
    [
        [("chunking_strategy", '{"type": "server_vad", "silence_duration_ms": 400}')],
        [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[silence_duration_ms]", "400")],
    ],
)
def test_chunking_strategy_sets_the_silence(pairs: list[tuple[str, str]]) -> None:
    assert read(*pairs).options.endpoint.silence_ms == 400


@pytest.mark.parametrize("value", ["auto", "{", "[1]", '{"type": "server_vad"}', "[" * 100_000])
def test_other_chunking_strategies_leave_the_default(value: str) -> None:
    assert read(("chunking_strategy", value)).options.endpoint.silence_ms is None


@pytest.mark.parametrize("value", ["99", "6001", "1e400", "x", "[]"])
def test_a_silence_out_of_bounds_is_refused(value: str) -> None:
    assert refusal(("chunking_strategy[silence_duration_ms]", value)).field == "chunking_strategy"


@pytest.mark.parametrize(("value", "expected"), [("en", "en"), ("zh-CN", "zh"), ("", None), ("auto", None)])
def test_language_is_a_tag(value: str, expected: str | None) -> None:
    assert read(("language", value)).options.language == expected


def test_one_of_languages_is_the_language_and_several_are_left_to_the_model() -> None:
    assert read(("languages[]", "zh")).options.language == "zh"
    assert read(("languages[]", "zh"), ("languages[]", "en")).options.language is None


def test_a_prompt_is_cut_into_phrases_and_sentences_are_no_hint() -> None:
    sentence = "This is what was said in the recording before, and it goes on for far too long to be a phrase"
    prompt = f"Digique Plus, GPT-3.5;阿里巴巴、通义。 {sentence.replace(',', '')}.\nOrbital"
    assert phrases(("prompt", prompt)) == ["Digique Plus", "GPT-3.5", "阿里巴巴", "通义", "Orbital"]


def test_hot_words_and_keywords_come_before_the_prompt_and_keep_their_weights() -> None:
    request = read(("prompt", "c, a"), ("hotwords", '{"a": 5}'), ("keywords[]", "b"))
    assert request.options.hotwords == (Hotword("a", 5.0), Hotword("b"), Hotword("c"))


def test_a_prompt_fills_only_the_room_that_is_left() -> None:
    prompt = ",".join(f"p{number}" for number in range(MAX_HOTWORDS))
    assert phrases(("hotwords", "first,"), ("prompt", prompt))[-1] == f"p{MAX_HOTWORDS - 2}"


def test_too_many_keywords_are_refused() -> None:
    many = ",".join(f"k{number}" for number in range(MAX_HOTWORDS))
    assert refusal(("hotwords", "first,"), ("keywords[]", many)).field == "keywords"


def test_bounds_name_their_field() -> None:
    assert refusal(("prompt", "x" * (MAX_PROMPT_CHARS + 1))).field == "prompt"
    assert refusal(("temperature", "-0.1")).field == "temperature"
    assert refusal(("temperature", "nan")).field == "temperature"
    assert refusal(("response_format", "diarized_json")).field == "response_format"
    assert refusal(("stream", "true"), ("response_format", "vtt")).field == "stream"
    assert refusal(("stream", "2")).field == "stream"
    assert refusal(("timestamp_granularities", "letter")).field == "timestamp_granularities"


@pytest.mark.parametrize("name", ["include", "include[]", "include[0]"])
def test_progress_is_only_for_those_who_ask(name: str) -> None:
    assert read((name, "progress")).progress
    assert read((name, "logprobs"), (name, "progress")).progress
    assert not read((name, "logprobs")).progress
    assert not read().progress


def test_stream_and_temperature_are_read() -> None:
    assert read(("stream", "True"), ("temperature", "0.5")).stream
    assert not read(("stream", "false"), ("stream", "0")).stream


def test_an_unknown_model_is_not_found_and_a_known_or_missing_one_is_taken() -> None:
    with pytest.raises(ModelNotFound) as caught:
        read(("model", "gpt-4o-transcribe"))
    assert "whisper-base" in caught.value.message
    read(("model", "whisper-base"))
    read(("model", ""))


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=40)), max_size=8))
def test_no_form_raises_anything_but_a_typed_error(pairs: list[tuple[str, str]]) -> None:
    with suppress(BadRequest, ModelNotFound):
        read(*pairs)
