"""What clients and server say to each other, free of any wire format. Dialects translate both ways."""

from dataclasses import dataclass

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, IgnoredHotword, SessionOptions
from streamscribe.core.results import Result
from streamscribe.core.rules import RuleHit


@dataclass(frozen=True, slots=True)
class Start:
    """Chooses the session's options; before the first audio only."""

    options: SessionOptions


@dataclass(frozen=True, slots=True)
class Audio:
    """Audio bytes; `sequence` is None unless the session is sequenced."""

    data: bytes
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    """Asks for a final now, and for `marker` back when it is out."""

    marker: str


@dataclass(frozen=True, slots=True)
class Update:
    """Replaces the hot words from the next segment on; `ignored` are those of the client's list that are not taken."""

    hotwords: tuple[Hotword, ...]
    ignored: tuple[IgnoredHotword, ...] = ()


@dataclass(frozen=True, slots=True)
class Ping:
    """Keeps an idle session alive."""


@dataclass(frozen=True, slots=True)
class End:
    """No more audio."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Takes over a session whose connection was lost."""

    session_id: str
    resume_token: str
    last_version: int
    last_acked_sequence: int | None


@dataclass(frozen=True, slots=True)
class Invalid:
    """What the client sent is not of the protocol. `fatal` ends the session; else the error is only told."""

    error: StreamScribeError
    fatal: bool = True


ClientMessage = Start | Audio | Flush | Update | Ping | End | Resume | Invalid


@dataclass(frozen=True, slots=True)
class SessionBounds:
    """The bounds a client should know, told in `Connected`."""

    max_message_bytes: int
    max_session_s: int
    idle_timeout_s: float
    resume_window_s: float


@dataclass(frozen=True, slots=True)
class Connected:
    """First message of a session. `durability` says what an ack means: `process` or `log`."""

    session_id: SessionId
    tenant_id: TenantId
    trace_id: TraceId
    resume_token: str
    durability: str
    bounds: SessionBounds


@dataclass(frozen=True, slots=True)
class Resumed:
    """First message after a resume: audio goes on at `next_sequence`; results after `last_version` follow."""

    session_id: SessionId
    next_sequence: int
    last_version: int


@dataclass(frozen=True, slots=True)
class Ack:
    """All audio up to `sequence` is where `durability` says."""

    sequence: int


@dataclass(frozen=True, slots=True)
class ResultSent:
    """A version of a segment, for the client."""

    session_id: SessionId
    trace_id: TraceId
    result: Result


@dataclass(frozen=True, slots=True)
class HotwordsTold:
    """Which of the phrases that the client gave hold from the next segment on, and which do not."""

    accepted: tuple[str, ...]
    ignored: tuple[IgnoredHotword, ...]


@dataclass(frozen=True, slots=True)
class RuleHitsSent:
    """What the tenant's rules found in the final that comes next for this segment."""

    segment_id: int
    channel: int
    hits: tuple[RuleHit, ...]


@dataclass(frozen=True, slots=True)
class SpeechActivity:
    """Voice began (`started`) or stopped on a channel."""

    started: bool
    channel: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class FlushDone:
    """Every final of the audio before the flush is out."""

    marker: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How far recognition is behind the audio."""

    received_ms: int
    processed_ms: int

    @property
    def lag_ms(self) -> int:
        """Audio received and not yet processed."""
        return max(0, self.received_ms - self.processed_ms)


@dataclass(frozen=True, slots=True)
class SlowDown:
    """Audio comes faster than allowed; the server reads on after `resume_after_ms`."""

    resume_after_ms: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The connection will end by `deadline_ms` from now; reconnect after `retry_after_ms`."""

    deadline_ms: int
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class ErrorSent:
    """Precedes the close where the error ends the session."""

    error: StreamScribeError


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers `Ping`."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Last message of a session; `audio_ms` of audio were processed."""

    reason: str
    audio_ms: int


ServerMessage = (
    Connected
    | Resumed
    | Ack
    | ResultSent
    | HotwordsTold
    | RuleHitsSent
    | SpeechActivity
    | FlushDone
    | Heartbeat
    | SlowDown
    | GoAway
    | ErrorSent
    | Pong
    | Closed
)
