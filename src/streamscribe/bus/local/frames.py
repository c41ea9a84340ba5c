"""The payloads of SETTLE and WORK frames.

SETTLE: the record's audio bytes (4 bytes, big-endian), then the session's id. WORK: a `Work` (1 byte), then its id.
"""

import struct
from enum import IntEnum

from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import SessionId

_SIZE = struct.Struct(">I")


class Work(IntEnum):
    """Whether a model may be in a step for what is settled of a session."""

    NONE = 0
    SOME = 1
    OTHER = 2
    """What was under way when that was last said is over, and something else is."""


def settle_payload(session_id: SessionId, size_bytes: int) -> bytes:
    """The payload for one record of a session."""
    return _SIZE.pack(size_bytes) + session_id.encode()


def parse_settle(payload: memoryview) -> tuple[SessionId, int]:
    """Session and audio bytes. Raises BadRequest for what is no such payload."""
    try:
        (size_bytes,) = _SIZE.unpack_from(payload)
        return SessionId(str(payload[_SIZE.size :], "ascii")), size_bytes
    except (struct.error, ValueError):
        raise BadRequest("the payload is no settlement", field="settle") from None


def work_payload(session_id: SessionId, work: Work) -> bytes:
    """The payload that says whether a model may be at work for a session."""
    return bytes((work,)) + session_id.encode()


def parse_work(payload: memoryview) -> tuple[SessionId, Work]:
    """Session, and whether a model may be at work for it. Raises BadRequest for what is no such payload."""
    try:
        return SessionId(str(payload[1:], "ascii")), Work(payload[0])
    except (IndexError, ValueError):
        raise BadRequest("the payload says of no session whether it is at work", field="work") from None
