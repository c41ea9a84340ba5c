"""What goes into a session's machine and what comes out of it: events, effects, identity and limits."""

from dataclasses import dataclass

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.messages import Audio, End, Flush, Invalid, Ping, ServerMessage, Start, Update
from streamscribe.core.options import Hotword
from streamscribe.core.records import Record, WorkerEvent
from streamscribe.core.rules import NO_POLICY, TextPolicy


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """Whose session it is, what proves it on a resume, and what its acks mean (`process` or `log`).

    `weight` is the tenant's share of the models beside other tenants'.
    """

    session_id: SessionId
    tenant_id: TenantId
    trace_id: TraceId
    resume_token: str
    durability: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class TenantTexts:
    """What the tenant wants of all its texts: its hot words join the client's, its policy goes with the session.

    With `zero_retention` no cache keeps anything of its sessions, whatever a client asks for.
    """

    hotwords: tuple[Hotword, ...] = ()
    policy: TextPolicy = NO_POLICY
    zero_retention: bool = False


NO_TEXTS = TenantTexts()


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The bounds of one session; named, measured and documented as in the settings."""

    max_session_s: float
    first_audio_timeout_s: float
    idle_timeout_s: float
    finalize_timeout_s: float
    resume_window_s: float
    max_rate: float
    burst_s: float
    max_burst_s: float
    max_chunks_per_s: float
    reorder_window: int
    gap_timeout_s: float
    replay_bytes: int
    max_message_bytes: int


@dataclass(frozen=True, slots=True)
class Durable:
    """Every record up to `index` is where `durability` says. The shell tells it after each `Publish` it performed."""

    index: int


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The client is gone without a word; it may come back."""


@dataclass(frozen=True, slots=True)
class ConnectionResumed:
    """A connection has shown the resume token. It takes the place of one that may still be open: ask `Session.accepts`,
    then close that first."""

    last_version: int
    last_acked_sequence: int | None


@dataclass(frozen=True, slots=True)
class Delivered:
    """The client has answered the close of a session that is done: it has everything."""


@dataclass(frozen=True, slots=True)
class GoingAway:
    """This process will end; the client should be told."""

    deadline_ms: int
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Killed:
    """The shell ends the session where it stands: a client that does not read, the last moment of a drain."""

    error: StreamScribeError


@dataclass(frozen=True, slots=True)
class BrokenDown:
    """The shell cannot carry the session on; a client that is away, or only seems to be there, is told later."""

    error: StreamScribeError


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The client is gone, and will not come back."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The shell lets the session take no more audio; the finals of what it took are delivered, then the error."""

    error: StreamScribeError


@dataclass(frozen=True, slots=True)
class Tick:
    """The time that `next_timer` named has come."""


SessionMessage = Audio | Start | Flush | Update | Ping | End | Invalid
"""What a client may say within a session; the usual first, as it is the order in which they are told apart."""

ConnectionEvent = ConnectionLost | ConnectionResumed | Delivered | Abandoned

ShellEvent = Durable | ConnectionEvent | GoingAway | Stopped | Killed | BrokenDown | Tick

SessionEvent = SessionMessage | WorkerEvent | ShellEvent


@dataclass(frozen=True, slots=True)
class Publish:
    """Put the record on the bus; in order."""

    record: Record


@dataclass(frozen=True, slots=True)
class Send:
    """Tell the client."""

    message: ServerMessage


@dataclass(frozen=True, slots=True)
class Pace:
    """Read nothing from the client before `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection: with the error's close code, or 1000. The session may live on (no `Release` yet)."""

    error: StreamScribeError | None


@dataclass(frozen=True, slots=True)
class Release:
    """The session is over: forget it and free its quota. The last effect of every session, exactly once.

    `failure` is why, if it failed, whether its client could be told or not; a client that goes is no failure.
    """

    failure: StreamScribeError | None = None


Effect = Publish | Send | Pace | Disconnect | Release
