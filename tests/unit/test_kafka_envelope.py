import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.bus.kafka.envelope import (
    SETTLED_HEADERS,
    Headers,
    Moved,
    RecordHeaders,
    Settled,
    decode_settled,
    encode_settled,
    event_headers,
    moved_headers,
    read_event_headers,
    read_key,
    read_moved,
    read_record_headers,
    record_headers,
)
from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import LeaseEpoch, SessionId

numbers = st.integers(0, 10**15)
ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z").map(SessionId)
strangers = st.lists(
    st.tuples(
        st.sampled_from(["v", "kind", "epoch", "reply-to", "audio-at", "generation", "left", "next-sequence", "x"]),
        st.none()
        | st.binary(max_size=20)
        | st.text(max_size=5)
        | st.sampled_from([b"1", b"event", b"settled", b"moved"]),
    )
)


@given(numbers, numbers)
def test_headers_of_a_record_are_read_as_they_were_written(reply_to: int, audio_at: int) -> None:
    headers = record_headers(reply_to, audio_at, "t")
    assert read_record_headers(headers, reply_to + 1) == RecordHeaders(reply_to, audio_at, trace_id="t")
    with pytest.raises(BadRequest, match="partition"):
        read_record_headers(headers, reply_to)


@given(numbers, st.lists(numbers, max_size=3))
def test_headers_of_a_later_gateway_say_which_it_is_and_what_the_session_left(generation: int, left: list[int]) -> None:
    headers = record_headers(1, 2, "t", generation, left)
    partitions = max(3, *left, 1) + 1
    assert read_record_headers(headers, partitions) == RecordHeaders(1, 2, generation, tuple(left), trace_id="t")


@given(st.none() | numbers)
def test_headers_of_any_record_say_which_chunk_comes_next(next_sequence: int | None) -> None:
    headers = record_headers(1, 2, "t", next_sequence=next_sequence)
    assert read_record_headers(headers, 2) == RecordHeaders(1, 2, next_sequence=next_sequence, trace_id="t")


@given(numbers)
def test_a_workers_last_word_to_former_gateways_is_told_from_events(generation: int) -> None:
    assert read_moved(moved_headers(LeaseEpoch(3), generation, "t")) == Moved(LeaseEpoch(3), generation)
    assert read_moved(event_headers(LeaseEpoch(3), "t")) is None
    assert read_moved(SETTLED_HEADERS) is None


@given(numbers)
def test_the_epoch_of_an_event_is_read_as_it_was_written(epoch: int) -> None:
    assert read_event_headers(event_headers(LeaseEpoch(epoch), "t")) == epoch


def test_news_of_what_was_processed_have_no_epoch_of_their_own() -> None:
    assert read_event_headers(SETTLED_HEADERS) is None


@given(st.lists(st.builds(Settled, ids, numbers.map(LeaseEpoch), numbers, numbers)))
def test_news_of_what_was_processed_round_trip(settled: list[Settled]) -> None:
    assert decode_settled(encode_settled(settled)) == settled


@given(st.binary())
def test_any_bytes_are_news_or_a_bad_request(data: bytes) -> None:
    try:
        decode_settled(data)
    except BadRequest:
        return


@given(strangers)
def test_any_headers_are_read_or_a_bad_request(headers: Headers) -> None:
    for read in (lambda found: read_record_headers(found, 4), read_event_headers, read_moved):
        try:
            read(headers)
        except BadRequest:
            continue


@pytest.mark.parametrize("headers", [[], [("v", b"2")], [("v", b"1"), ("reply-to", b"-1"), ("audio-at", b"0")]])
def test_headers_of_no_record_are_a_bad_request(headers: Headers) -> None:
    with pytest.raises(BadRequest):
        read_record_headers(headers, 4)


def test_the_key_is_a_sessions_id() -> None:
    assert read_key(b"a") == SessionId("a")
    for key in (None, b"", b"\xff", b"../x"):
        with pytest.raises(BadRequest):
            read_key(key)
