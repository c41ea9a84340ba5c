"""What a native client says, as msgspec types: one closed union, told apart by `type`; unknown fields are ignored.

An absent field (UNSET) keeps the value that the connection's address asked for, or the default.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streamscribe.core.audio import Encoding
from streamscribe.core.options import (
    MAX_CHUNK_MS,
    MAX_SEGMENT_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_MS,
    MIN_CHUNK_MS,
    MIN_SEGMENT_MS,
    MIN_SILENCE_MS,
    MIN_SPEECH_MS,
    Latency,
    Mode,
)
from streamscribe.wire.frames import MAX_SEQUENCE

MAX_TEXT_BYTES = 64 * 2**10
"""Longest text frame of a client."""

MAX_MARKER_CHARS = 128

Framing = Literal["plain", "sequenced"]
SilenceMs = Annotated[int, Meta(ge=MIN_SILENCE_MS, le=MAX_SILENCE_MS)]
SegmentMs = Annotated[int, Meta(ge=MIN_SEGMENT_MS, le=MAX_SEGMENT_MS)]
SpeechMs = Annotated[int, Meta(ge=MIN_SPEECH_MS, le=MAX_SPEECH_MS)]
ChunkMs = Annotated[int, Meta(ge=MIN_CHUNK_MS, le=MAX_CHUNK_MS)]


class AudioFields(msgspec.Struct, frozen=True):
    """The `audio` object of `start`; the ranges are checked by `AudioFormat`."""

    encoding: Encoding | UnsetType = UNSET
    sample_rate: int | UnsetType = UNSET
    channels: int | UnsetType = UNSET


class EndpointFields(msgspec.Struct, frozen=True):
    """The `endpoint` object of `start`: what counts as speech, and when it as ended."""

    silence_ms: SilenceMs | None = None
    max_segment_ms: SegmentMs | None = None
    min_speech_ms: SpeechMs | None = None


class _Message(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    pass


class StartMessage(_Message, frozen=True, tag="start"):
    """Chooses the session's options."""

    audio: AudioFields | UnsetType = UNSET
    mode: Mode | UnsetType = UNSET
    language: str | UnsetType | None = UNSET
    hotwords: Any = UNSET
    words: bool | UnsetType = UNSET
    itn: bool | UnsetType = UNSET
    punctuation: bool | UnsetType = UNSET
    endpoint: EndpointFields | UnsetType = UNSET
    latency: Latency | UnsetType = UNSET
    chunk_ms: ChunkMs | UnsetType | None = UNSET
    framing: Framing | UnsetType = UNSET
    store: bool | UnsetType = UNSET


class FlushMessage(_Message, frozen=True, tag="flush"):
    """Asks for a final now."""

    marker: Annotated[str, Meta(max_length=MAX_MARKER_CHARS)] = ""


class UpdateMessage(_Message, frozen=True, tag="update"):
    """Replaces the hot words."""

    hotwords: Any


class PingMessage(_Message, frozen=True, tag="ping"):
    """Keeps the session alive."""


class EndMessage(_Message, frozen=True, tag="end"):
    """No more audio."""


class ResumeMessage(_Message, frozen=True, tag="resume"):
    """Takes over a session; `framing` repeats the session's own where the address does not say it."""

    session_id: Annotated[str, Meta(max_length=64)]
    resume_token: Annotated[str, Meta(max_length=512)]
    last_version: Annotated[int, Meta(ge=0, le=2**53)] = 0
    last_acked_sequence: Annotated[int, Meta(ge=0, le=MAX_SEQUENCE)] | None = None
    framing: Framing | UnsetType = UNSET


ClientWire = StartMessage | FlushMessage | UpdateMessage | PingMessage | EndMessage | ResumeMessage
