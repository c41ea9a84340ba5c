"""What goes over a bus between processes, as bytes: records down, worker events up.

An envelope is one MessagePack array of three: the version of this format, the kind, and the value's fields by name. So
a reader finds version and kind in the first three bytes, and readers pass over fields that they do not know: a field
with a default may be added within a version. A kind's number never changes its meaning.
"""

import inspect
from typing import Any, TypeVar

import msgspec

from streamscribe.core import errors
from streamscribe.core.errors import BadRequest, InternalError, StreamScribeError
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Checkpointed,
    Emitted,
    Failed,
    Finished,
    Flushed,
    FlushRequested,
    HotwordsUpdated,
    Progress,
    Recognised,
    Record,
    RulesHit,
    SessionAbandoned,
    SessionOpened,
    SpeechStarted,
    SpeechStopped,
)

VERSION = 1
MAX_INDEX = 2**53
"""No session has so many records; what is added to such an index is still an integer of any reader."""

_ARRAY_OF_THREE = 0x93
_HEADER_BYTES = 3

_T = TypeVar("_T")

Decoders = dict[int, msgspec.msgpack.Decoder[_T]]


class _ErrorFields(msgspec.Struct, omit_defaults=True):
    code: str
    message: str
    field: str | None = None
    retry_after_s: float | None = None


_RECORDS: dict[int, type[Record]] = {
    1: SessionOpened,
    2: AudioChunk,
    3: FlushRequested,
    4: HotwordsUpdated,
    5: AudioEnded,
    6: SessionAbandoned,
}
_EVENTS: dict[int, type[Emitted]] = {
    32: Recognised,
    33: RulesHit,
    34: SpeechStarted,
    35: SpeechStopped,
    36: Flushed,
    37: Progress,
    38: Checkpointed,
    39: Finished,
    40: Failed,
}
_KINDS: dict[type, int] = {value: kind for table in (_RECORDS, _EVENTS) for kind, value in table.items()}
ERROR_CLASSES: dict[str, type[StreamScribeError]] = {
    error.code: error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, StreamScribeError) and error is not StreamScribeError
}


def encode_record(record: Record) -> bytes:
    """The record's envelope; its audio is copied once."""
    return encode_envelope(_KINDS[type(record)], record)


def decode_record(data: bytes | memoryview) -> Record:
    """The record of an envelope; its audio is copied once, and nothing keeps `data`.

    Raises BadRequest for what is no record of this version, and nothing else for any bytes.
    """
    record = decode_envelope(data, _record_decoders, "a record")
    if not 0 <= record.index <= MAX_INDEX:
        raise BadRequest("the index of a record is out of bounds", field="index")
    return record


def encode_event(event: Emitted) -> bytes:
    """The event's envelope."""
    return encode_envelope(_KINDS[type(event)], event)


def decode_event(data: bytes | memoryview) -> Emitted:
    """The event of an envelope. The error of a `Failed` is of its own class, of an unknown code InternalError.

    Raises BadRequest for what is no event of this version, and nothing else for any bytes.
    """
    return decode_envelope(data, _event_decoders, "an event")


def encode_envelope(kind: int, value: object) -> bytes:
    """An envelope of this module's form, for a kind of value of its own."""
    return _encoder.encode((VERSION, kind, value))


def decode_envelope(data: bytes | memoryview, decoders: "Decoders[_T]", what: str) -> _T:
    """The value of an envelope of one of these kinds. Raises BadRequest for anything else, which names `what`."""
    if len(data) < _HEADER_BYTES or data[0] != _ARRAY_OF_THREE:
        raise BadRequest(f"the bytes are not {what} of a bus", field="envelope")
    if data[1] != VERSION:
        raise BadRequest(f"the version of {what} must be {VERSION}", field="version")
    decoder = decoders.get(data[2])
    if decoder is None:
        raise BadRequest(f"the kind of {what} is unknown", field="kind")
    try:
        return decoder.decode(memoryview(data)[_HEADER_BYTES:])
    except (msgspec.MsgspecError, ValueError, RecursionError):  # texts that are no UTF-8, nesting without an end
        raise BadRequest(f"{what} has fields that are not of its kind", field="value") from None


def _to_builtins(value: Any) -> Any:
    if isinstance(value, str):  # ids are strings that were checked
        return str(value)
    if isinstance(value, StreamScribeError):
        return _ErrorFields(value.code, value.message, value.field, value.retry_after_s)
    raise NotImplementedError(f"{type(value).__name__} has no place in a record")


def _from_builtins(kind: type, value: Any) -> Any:
    if kind is not StreamScribeError:
        return kind(value)  # an id, which checks itself
    told = msgspec.convert(value, _ErrorFields)
    error = ERROR_CLASSES.get(told.code, InternalError)
    return error(told.message, field=told.field, retry_after_s=told.retry_after_s)


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_builtins)


def decoders_of(kinds: dict[int, type[_T]]) -> "Decoders[_T]":
    """What `decode_envelope` reads these kinds with."""
    return {kind: msgspec.msgpack.Decoder(value, dec_hook=_from_builtins) for kind, value in kinds.items()}


_record_decoders = decoders_of(_RECORDS)
_event_decoders = decoders_of(_EVENTS)
