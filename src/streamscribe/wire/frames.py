"""Sequenced framing: each binary message starts with an 8-byte header of two big-endian uint32, sequence and flags."""

import struct

from streamscribe.core.errors import BadRequest
from streamscribe.core.messages import Audio

_HEADER = struct.Struct(">II")

HEADER_BYTES = _HEADER.size
MAX_SEQUENCE = 2**32 - 1


def pack_frame(sequence: int, data: bytes) -> bytes:
    """A sequenced message; `sequence` is 0 to MAX_SEQUENCE."""
    return _HEADER.pack(sequence, 0) + data


def unpack_frame(message: bytes) -> Audio:
    """The audio of a sequenced message, copied once. Raises BadRequest for a short header or unknown flags."""
    if len(message) < HEADER_BYTES:
        raise BadRequest(f"a sequenced message must have at least {HEADER_BYTES} bytes", field="sequence")
    sequence, flags = _HEADER.unpack_from(message)
    if flags:
        raise BadRequest("flags must be 0", field="flags")
    return Audio(message[HEADER_BYTES:], sequence)
