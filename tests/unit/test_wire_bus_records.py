"""The envelopes of a bus: whatever is said comes back as it was, and no bytes do harm."""

from contextlib import suppress
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core import errors
from streamscribe.core.audio import Encoding
from streamscribe.core.errors import BadRequest, InternalError, QuotaExceeded, StreamScribeError
from streamscribe.core.fair_share import MAX_WEIGHT
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import (
    MAX_CHUNK_MS,
    MAX_SEGMENT_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_MS,
    MIN_CHUNK_MS,
    MIN_SEGMENT_MS,
    MIN_SILENCE_MS,
    MIN_SPEECH_MS,
    AudioFormat,
    EndpointOptions,
    SessionOptions,
)
from streamscribe.core.records import AudioChunk, Emitted, Failed, Progress, Record, SessionOpened, WorkerEvent
from streamscribe.wire.bus_records import MAX_INDEX, VERSION, decode_event, decode_record, encode_event, encode_record

_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", fullmatch=True)
_ERRORS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, StreamScribeError) and value is not StreamScribeError
]

st.register_type_strategy(SessionId, _IDS.map(SessionId))
st.register_type_strategy(TenantId, _IDS.map(TenantId))
st.register_type_strategy(TraceId, _IDS.map(TraceId))
st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(
    AudioFormat, st.builds(AudioFormat, st.sampled_from(Encoding), st.integers(8_000, 48_000), st.integers(1, 2))
)
st.register_type_strategy(
    EndpointOptions,
    st.builds(
        EndpointOptions,
        st.none() | st.integers(MIN_SILENCE_MS, MAX_SILENCE_MS),
        st.none() | st.integers(MIN_SEGMENT_MS, MAX_SEGMENT_MS),
        st.none() | st.integers(MIN_SPEECH_MS, MAX_SPEECH_MS),
    ),
)
st.register_type_strategy(
    SessionOptions, st.builds(SessionOptions, chunk_ms=st.none() | st.integers(MIN_CHUNK_MS, MAX_CHUNK_MS))
)

_BOUNDED = {"index": st.integers(0, MAX_INDEX), "weight": st.integers(1, MAX_WEIGHT)}
RECORDS = st.one_of(
    [
        st.builds(kind, **{name: one for name, one in _BOUNDED.items() if name in kind.__dataclass_fields__})
        for kind in get_args(Record)
    ]
)
EVENTS = st.one_of([st.from_type(kind) for kind in get_args(Emitted) if kind is not Failed])
ENVELOPES = st.one_of(RECORDS.map(encode_record), EVENTS.map(encode_event))


def only_bad_requests(data: bytes) -> None:
    """Reads it both ways, and lets nothing but BadRequest pass."""
    for decode in (decode_record, decode_event):
        with suppress(BadRequest):
            decode(data)


@given(RECORDS)
def test_any_record_comes_back_as_it_was(record: Record) -> None:
    again = decode_record(encode_record(record))
    assert again == record
    assert type(again) is type(record)
    assert type(again.session_id) is SessionId


@given(EVENTS)
def test_any_event_comes_back_as_it_was(event: WorkerEvent) -> None:
    assert decode_event(memoryview(encode_event(event))) == event


@pytest.mark.parametrize("kind", _ERRORS)
def test_an_error_comes_back_as_its_own_class_with_what_it_says(kind: type[StreamScribeError]) -> None:
    for sent in (kind(), kind("chunk 7 is too large", field="chunk", retry_after_s=2.5)):
        event = decode_event(encode_event(Failed(SessionId("a"), sent)))
        assert isinstance(event, Failed)
        got = event.error
        assert type(got) is kind
        assert (got.message, got.field, got.retry_after_s) == (sent.message, sent.field, sent.retry_after_s)


def test_an_error_that_this_version_does_not_know_is_still_a_failure_of_its_session() -> None:
    later = encode_event(Failed(SessionId("a"), QuotaExceeded("told"))).replace(b"quota_exceeded", b"quota_exceedeD")
    event = decode_event(later)
    assert isinstance(event, Failed)
    assert type(event.error) is InternalError
    assert event.error.message == "told"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_bad_request(data: bytes) -> None:
    only_bad_requests(data)
    for kind in (1, 2, 4, 32, 38, 40):
        only_bad_requests(bytes((0x93, VERSION, kind)) + data)


@given(ENVELOPES, st.data())
def test_a_damaged_envelope_is_a_value_or_a_bad_request(envelope: bytes, data: st.DataObject) -> None:
    damaged = bytearray(envelope)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    only_bad_requests(bytes(damaged))
    only_bad_requests(envelope[: data.draw(st.integers(0, len(envelope) - 1))])
    with pytest.raises(BadRequest):
        decode_record(envelope + b"\x00")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("index", -1),
        ("index", MAX_INDEX + 1),
        ("weight", 0),
        ("weight", -1),
        ("weight", 2**63),
        ("options", {"chunk_ms": 0}),
        ("options", {"chunk_ms": 2**62}),
        ("options", {"endpoint": {"silence_ms": 0}}),
        ("options", {"endpoint": {"max_segment_ms": -1}}),
        ("options", {"endpoint": {"max_segment_ms": 2**62}}),
        ("options", {"endpoint": {"min_speech_ms": -1}}),
        ("options", {"audio": {"sample_rate": 0}}),
    ],
)
def test_what_no_gateway_sends_of_a_session_reaches_no_worker(field: str, value: object) -> None:
    opened = {"session_id": "a", "index": 0, "tenant_id": "t", "trace_id": "x", "options": {}}
    assert isinstance(decode_record(msgspec.msgpack.encode((VERSION, 1, opened))), SessionOpened)
    with pytest.raises(BadRequest):
        decode_record(msgspec.msgpack.encode((VERSION, 1, opened | {field: value})))


@pytest.mark.parametrize(
    "value",
    [
        b"\x91" * 200_000,  # nesting without an end
        b"\x81\xa1x" + b"\x91" * 200_000,  # the same, in a field that nobody knows
        b"\x81\xa8hotwords\xdd\xff\xff\xff\xff",  # lengths that nothing follows
        b"\x81\xa4data\xc6\xff\xff\xff\xff",
        b"\x81\xaasession_id\xa1\xff",  # no UTF-8
    ],
)
def test_forged_lengths_and_depths_cost_nothing(value: bytes) -> None:
    for kind in range(1, 41):
        only_bad_requests(bytes((0x93, VERSION, kind)) + value)


def test_what_is_checked_where_it_is_made_is_checked_here_too() -> None:
    opened = SessionOpened(SessionId("a"), 0, TenantId("t"), TraceId("x"), SessionOptions())
    bad_rate = encode_record(opened).replace(b"\xcd>\x80", b"\xcd\x00\x01")
    bad_id = encode_record(opened).replace(b"\xaasession_id\xa1a", b"\xaasession_id\xa1/")
    for data in (bad_rate, bad_id):
        with pytest.raises(BadRequest, match="not of its kind"):
            decode_record(data)


def test_records_and_events_are_not_taken_for_each_other() -> None:
    with pytest.raises(BadRequest, match="kind"):
        decode_event(encode_record(AudioChunk(SessionId("a"), 1, 1, b"")))
    with pytest.raises(BadRequest, match="kind"):
        decode_record(encode_event(Progress(SessionId("a"), 1)))


def test_another_version_is_refused_by_name_and_a_field_of_a_later_release_is_passed_over() -> None:
    data = encode_record(AudioChunk(SessionId("a"), 1, 1, b"12"))
    with pytest.raises(BadRequest, match="version") as refused:
        decode_record(data[:1] + b"\x02" + data[2:])
    assert refused.value.field == "version"
    fields = msgspec.msgpack.decode(data)[2] | {"later": 1}
    assert decode_record(msgspec.msgpack.encode((VERSION, 2, fields))) == AudioChunk(SessionId("a"), 1, 1, b"12")


def test_audio_is_raw_bytes_inside_its_envelope() -> None:
    audio = bytes(range(256)) * 12
    data = encode_record(AudioChunk(SessionId("a" * 32), 1, 1, audio))
    assert audio in data
    assert len(data) < len(audio) + 100
