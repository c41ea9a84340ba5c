"""What the server says in the native protocol, as msgspec types: encoded by the dialect, decoded by our client.

Field names are the protocol. A client should ignore types and fields that it does not know.
"""

import msgspec
from msgspec import UNSET, UnsetType

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.messages import (
    Ack,
    Closed,
    Connected,
    ErrorSent,
    FlushDone,
    GoAway,
    Heartbeat,
    HotwordsTold,
    Pong,
    ResultSent,
    Resumed,
    RuleHitsSent,
    ServerMessage,
    SlowDown,
    SpeechActivity,
)


class _Message(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class LimitFields(msgspec.Struct, frozen=True):
    """The bounds told in `connected`."""

    max_message_bytes: int
    max_session_s: int
    idle_timeout_s: float
    resume_window_s: float


class ConnectedMessage(_Message, frozen=True, tag="connected"):
    """A session is open; `user_id` is the tenant."""

    code: int
    session_id: str
    user_id: str
    trace_id: str
    resume_token: str
    durability: str
    limits: LimitFields


class ResumedMessage(_Message, frozen=True, tag="resumed"):
    """The session goes on at audio `next_sequence`; results after `last_version` follow."""

    session_id: str
    next_sequence: int
    last_version: int


class AckMessage(_Message, frozen=True, tag="ack"):
    """All audio up to `sequence` is safe."""

    sequence: int


class WordFields(msgspec.Struct, frozen=True):
    """A word of a result."""

    text: str
    start_ms: int
    end_ms: int
    confidence: float


class ResultMessage(_Message, frozen=True, tag="result"):
    """A version of a segment; a client overwrites by (segment_id, version)."""

    session_id: str
    sequence: int
    result_type: str
    pass_: int = msgspec.field(name="pass")
    segment_id: int
    version: int
    channel: int
    text: str
    stable_chars: int
    start_ms: int
    end_ms: int
    words: list[WordFields]
    confidence: float
    is_final: bool
    language: str | None
    trace_id: str
    emotion: str | UnsetType = UNSET
    events: list[str] | UnsetType = UNSET
    degraded: bool | UnsetType = UNSET


class IgnoredFields(msgspec.Struct, frozen=True):
    """A phrase that was not taken, and why."""

    phrase: str
    reason: str


class HotwordsMessage(_Message, frozen=True, tag="hotwords"):
    """What came of the client's hot words: those that hold from the next segment on, and those that do not."""

    accepted: list[str]
    ignored: list[IgnoredFields]


class RuleHitFields(msgspec.Struct, frozen=True):
    """A phrase of one of the tenant's rules, and when it was said; `kind` is forbidden, promised or product."""

    rule: str
    kind: str
    phrase: str
    start_ms: int
    end_ms: int


class RuleHitMessage(_Message, frozen=True, tag="rule_hit"):
    """What the tenant's rules found in the final that comes next for this segment."""

    segment_id: int
    channel: int
    hits: list[RuleHitFields]


class SpeechStartedMessage(_Message, frozen=True, tag="speech_started"):
    """Voice began."""

    channel: int
    at_ms: int


class SpeechStoppedMessage(_Message, frozen=True, tag="speech_stopped"):
    """Voice ended."""

    channel: int
    at_ms: int


class FlushedMessage(_Message, frozen=True, tag="flushed"):
    """Every final of the audio before the flush is out."""

    marker: str


class HeartbeatMessage(_Message, frozen=True, tag="heartbeat"):
    """How far recognition is behind the audio."""

    received_ms: int
    processed_ms: int
    lag_ms: int


class SlowDownMessage(_Message, frozen=True, tag="slow_down"):
    """Audio comes too fast; the server reads on after so long."""

    resume_after_ms: int


class GoAwayMessage(_Message, frozen=True, tag="go_away"):
    """The connection ends by the deadline; reconnect and resume."""

    deadline_ms: int
    retry_after_ms: int


class ErrorMessage(_Message, frozen=True, tag="error"):
    """A typed failure: `code` is an HTTP status, `name` is what to branch on, `retry` is never, after or resume."""

    code: int
    name: str
    message: str
    retry: str
    retry_after_ms: int | UnsetType = UNSET
    field: str | UnsetType = UNSET


class PongMessage(_Message, frozen=True, tag="pong"):
    """Answers `ping`."""


class ClosedMessage(_Message, frozen=True, tag="closed"):
    """The session is over."""

    reason: str
    audio_ms: int


ServerWire = (
    ConnectedMessage
    | ResumedMessage
    | AckMessage
    | ResultMessage
    | HotwordsMessage
    | RuleHitMessage
    | SpeechStartedMessage
    | SpeechStoppedMessage
    | FlushedMessage
    | HeartbeatMessage
    | SlowDownMessage
    | GoAwayMessage
    | ErrorMessage
    | PongMessage
    | ClosedMessage
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ServerWire)


def encode_server_message(message: ServerMessage) -> str:
    """The text frame for a message."""
    return _encoder.encode(to_wire(message)).decode()


def decode_server_message(text: str | bytes) -> ServerWire:
    """The message of a text frame. Raises ValueError for what is not of the protocol."""
    return _decoder.decode(text)


def error_message(error: StreamScribeError) -> ErrorMessage:
    """An error as the protocol tells it; a refusal by quota holds `"code":429` and its message."""
    return ErrorMessage(
        code=error.http_status,
        name=error.code,
        message=error.message,
        retry=error.retry.value,
        retry_after_ms=UNSET if error.retry_after_s is None else round(error.retry_after_s * 1000),
        field=UNSET if error.field is None else error.field,
    )


def to_wire(message: ServerMessage) -> ServerWire:
    """A message as its wire type; the frequent ones are looked at first."""
    match message:
        case Ack():
            return AckMessage(message.sequence)
        case ResultSent():
            return _result(message)
        case Heartbeat():
            return HeartbeatMessage(message.received_ms, message.processed_ms, message.lag_ms)
        case RuleHitsSent():
            hits = [RuleHitFields(hit.rule, hit.kind, hit.phrase, hit.start_ms, hit.end_ms) for hit in message.hits]
            return RuleHitMessage(message.segment_id, message.channel, hits)
        case HotwordsTold():
            ignored = [IgnoredFields(one.phrase, one.reason) for one in message.ignored]
            return HotwordsMessage(list(message.accepted), ignored)
        case SpeechActivity():
            kind = SpeechStartedMessage if message.started else SpeechStoppedMessage
            return kind(message.channel, message.at_ms)
        case FlushDone():
            return FlushedMessage(message.marker)
        case SlowDown():
            return SlowDownMessage(message.resume_after_ms)
        case GoAway():
            return GoAwayMessage(message.deadline_ms, message.retry_after_ms)
        case Pong():
            return PongMessage()
        case ErrorSent():
            return error_message(message.error)
        case Closed():
            return ClosedMessage(message.reason, message.audio_ms)
        case Resumed():
            return ResumedMessage(str(message.session_id), message.next_sequence, message.last_version)
        case Connected():
            return _connected(message)


def _connected(message: Connected) -> ConnectedMessage:
    bounds = message.bounds
    return ConnectedMessage(
        code=0,
        session_id=str(message.session_id),
        user_id=str(message.tenant_id),
        trace_id=str(message.trace_id),
        resume_token=message.resume_token,
        durability=message.durability,
        limits=LimitFields(
            bounds.max_message_bytes, bounds.max_session_s, bounds.idle_timeout_s, bounds.resume_window_s
        ),
    )


def _result(message: ResultSent) -> ResultMessage:
    result = message.result
    return ResultMessage(
        session_id=str(message.session_id),
        sequence=result.sequence,
        result_type=result.type.value,
        pass_=result.pass_,
        segment_id=result.segment_id,
        version=result.version,
        channel=result.channel,
        text=result.text,
        stable_chars=result.stable_chars,
        start_ms=result.start_ms,
        end_ms=result.end_ms,
        words=[WordFields(word.text, word.start_ms, word.end_ms, word.confidence) for word in result.words],
        confidence=result.confidence,
        is_final=result.is_final,
        language=result.language,
        trace_id=str(message.trace_id),
        emotion=result.emotion or UNSET,
        events=list(result.events) or UNSET,
        degraded=result.degraded or UNSET,
    )
