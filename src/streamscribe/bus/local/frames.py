"""The payload of SETTLE frames: the record's audio bytes (4 bytes, big-endian), then the session's id."""

import struct

from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import SessionId

_SIZE = struct.Struct(">I")


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
