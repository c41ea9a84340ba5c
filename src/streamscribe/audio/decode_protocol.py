"""What the decoding child and its parent say to each other: one JSON line down, typed length-prefixed frames up."""

import json
import struct
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

from streamscribe.core.audio import SAMPLE_RATE

if TYPE_CHECKING:  # the child would load all of pydantic with it, which takes as long as the rest of its start
    from streamscribe.settings import LimitSettings

SAMPLE_BYTES = 2
BLOCK_SAMPLES = SAMPLE_RATE
MAX_CHANNELS = 8
MIN_RATE, MAX_RATE = 4_000, 192_000
HEADER = struct.Struct("!cI")
"""Tag and payload size of a frame."""
INFO = struct.Struct("!Bd")
"""Channels to come and the duration in seconds that the file declares, 0 if none."""
MAX_PAYLOAD_BYTES = 2**18
"""A child that was taken over by its input cannot make the parent allocate more than this."""


class Tag(bytes, Enum):
    """Kind of a frame. INFO comes first, then DATA, and at last END or ERROR; a child that was killed sends neither."""

    INFO = b"I"
    DATA = b"D"
    END = b"Z"
    ERROR = b"E"


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """Bounds of one decode, counted while it runs.

    `max_decoded_bytes` counts 16-bit samples of all channels at the file's own rate. `memory_bytes` is address space
    beyond what the child's libraries take. `stall_s` is the longest wait for the child's next block.
    """

    max_file_bytes: int = 512 * 2**20
    max_decoded_s: float = 4 * 3600
    max_decoded_bytes: int = 2 * 2**30
    memory_bytes: int = 512 * 2**20
    stall_s: float = 20

    @classmethod
    def from_settings(cls, limits: "LimitSettings") -> Self:
        """The limits that the settings name; a file becomes a session, so it may not be longer than one."""
        return cls(
            max_file_bytes=limits.max_upload_bytes,
            max_decoded_s=min(limits.max_decoded_s, limits.max_session_s),
            max_decoded_bytes=limits.max_decoded_bytes,
            memory_bytes=limits.decode_memory_bytes,
            stall_s=limits.decode_stall_s,
        )

    @property
    def cpu_s(self) -> int:
        """Processor time allowed: the slowest accepted codec needs a fifth of it for the longest audio."""
        return int(60 + self.max_decoded_s / 20)


@dataclass(frozen=True, slots=True)
class Job:
    """One file to decode to s16le at 16 kHz; `channels` None keeps the file's two channels apart, 1 mixes all down."""

    path: str
    limits: DecodeLimits
    channels: int | None = 1

    def to_line(self) -> bytes:
        """The job as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Reads what `to_line` wrote."""
        fields = json.loads(line)
        return cls(path=fields["path"], limits=DecodeLimits(**fields["limits"]), channels=fields["channels"])
