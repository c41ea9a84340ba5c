"""Requests for finals and their answers: what was written is read, and no bytes raise anything but BadRequest."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import BadRequest, ModelUnavailable, StreamScribeError
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, Task
from streamscribe.core.tokens import HypothesisWord
from streamscribe.wire.bus_records import ERROR_CLASSES
from streamscribe.wire.final_requests import (
    MAX_AUDIO_S,
    MAX_REQUEST_BYTES,
    FinalAnswer,
    FinalHeard,
    FinalRequest,
    SampleFormat,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)

texts = st.text(max_size=40)
numbers = st.integers(0, 2**40)
shares = st.floats(0, 1)
ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")
words = st.tuples(st.builds(HypothesisWord, texts, numbers, numbers, shares))
requests = st.builds(
    FinalRequest,
    ids.map(SessionId),
    numbers,
    ids.map(TraceId),
    texts,
    numbers,
    numbers,
    numbers,
    texts,
    st.sampled_from(SampleFormat),
    st.binary(max_size=100).map(lambda data: data[: len(data) // 4 * 4]),
    st.booleans(),
    st.integers(1, 100),
    st.none() | ids.map(TenantId),
    st.none() | texts,
    st.sampled_from(Task),
    st.tuples(st.builds(Hotword, texts, st.floats(0, 10))),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    texts,
)
heard = st.builds(
    FinalHeard, texts, st.none() | texts, shares, words, st.booleans(), st.none() | texts, st.tuples(texts)
)
errors = st.builds(
    lambda kind, text: kind(text or "x", field="f"), st.sampled_from(list(ERROR_CLASSES.values())), texts
)

REQUEST = FinalRequest(SessionId("s"), 1, TraceId("t"), "worker", 1, 0, 1000, "f", SampleFormat.S16, bytes(2 * 16_000))


@given(requests)
def test_a_request_is_read_as_it_was_written(request: FinalRequest) -> None:
    assert decode_request(encode_request(request)) == request


@given(heard)
def test_an_answer_is_read_as_it_was_written(heard: FinalHeard) -> None:
    answer = FinalAnswer(SessionId("s"), "worker", 7, heard)
    assert decode_answer(encode_answer(answer)) == answer


@given(errors)
def test_an_error_is_read_as_one_of_its_own_class(error: StreamScribeError) -> None:
    told = decode_answer(encode_answer(FinalAnswer(SessionId("s"), "worker", 7, error=error))).error
    assert type(told) is type(error)
    assert (told.message, told.field) == (error.message, error.field)


@given(st.binary(max_size=200) | requests.map(encode_request), st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_damaged_bytes_are_a_request_or_a_bad_one(data: bytes, at: int, noise: bytes) -> None:
    for decode in (decode_request, decode_answer):
        try:
            decode(data[:at] + noise + data[at + len(noise) :])
        except BadRequest:
            continue


def test_the_longest_segment_fits_into_a_request() -> None:
    audio = bytes(4 * MAX_AUDIO_S * 16_000)
    hotwords = tuple(Hotword("w" * 100) for _ in range(1000))
    longest = dataclasses.replace(REQUEST, sample_format=SampleFormat.F32, audio=audio, hotwords=hotwords)
    assert len(encode_request(longest)) <= MAX_REQUEST_BYTES


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"audio": b"odd"}, "audio"),
        ({"audio": bytes(2 * 31 * 16_000)}, "audio"),
        ({"weight": 0}, "weight"),
        ({"weight": 101}, "weight"),
        ({"patience_ms": -1}, "patience_ms"),
    ],
)
def test_a_request_beyond_its_bounds_is_a_bad_one_that_names_the_field(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_request(encode_request(dataclasses.replace(REQUEST, **wrong)))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_an_answer_without_anything_or_with_both_is_a_bad_one() -> None:
    for empty in (
        FinalAnswer(SessionId("s"), "w", 1),
        FinalAnswer(SessionId("s"), "w", 1, FinalHeard("x"), ModelUnavailable()),
    ):
        with pytest.raises(BadRequest):
            decode_answer(encode_answer(empty))
