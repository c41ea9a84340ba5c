"""What gateway and worker say to each other over the bus. Records go down, worker events come back.

`index` numbers a session's records from 0 without gaps: a worker drops what it has seen (delivery is at least once).
"""

from dataclasses import dataclass

from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.fair_share import MAX_WEIGHT
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, SessionOptions
from streamscribe.core.results import Result
from streamscribe.core.rules import NO_POLICY, RuleHit, TextPolicy


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """Always record 0. `policy` is the tenant's at that time, `weight` its share beside other tenants'.

    With a `checkpoint` another worker had the session, and its records go on with the checkpoint's. Raises ValueError
    for a weight that is none.
    """

    session_id: SessionId
    index: int
    tenant_id: TenantId
    trace_id: TraceId
    options: SessionOptions
    policy: TextPolicy = NO_POLICY
    checkpoint: Checkpoint | None = None
    weight: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.weight <= MAX_WEIGHT:
            raise ValueError(f"weight must be 1 to {MAX_WEIGHT}")


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """Bytes in the session's audio format; a sample may be cut across chunks."""

    session_id: SessionId
    index: int
    sequence: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FlushRequested:
    """Close the open segment where it stands; answered by `Flushed` after its final."""

    session_id: SessionId
    index: int
    marker: str


@dataclass(frozen=True, slots=True)
class HotwordsUpdated:
    """Replaces the hot words from the next segment on."""

    session_id: SessionId
    index: int
    hotwords: tuple[Hotword, ...]


@dataclass(frozen=True, slots=True)
class AudioEnded:
    """No more audio; answered by `Finished` after the last final."""

    session_id: SessionId
    index: int


@dataclass(frozen=True, slots=True)
class SessionAbandoned:
    """Nobody waits for the session any more: drop its state and its queued work."""

    session_id: SessionId
    index: int


Record = SessionOpened | AudioChunk | FlushRequested | HotwordsUpdated | AudioEnded | SessionAbandoned


@dataclass(frozen=True, slots=True)
class Recognised:
    """A new version of a segment."""

    session_id: SessionId
    result: Result


@dataclass(frozen=True, slots=True)
class RulesHit:
    """What the tenant's rules found in a final; told before it."""

    session_id: SessionId
    segment_id: int
    channel: int
    hits: tuple[RuleHit, ...]


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Voice began on a channel."""

    session_id: SessionId
    channel: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """Voice ended on a channel."""

    session_id: SessionId
    channel: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """All audio before the flush has its finals; `index` is the request's."""

    session_id: SessionId
    marker: str
    index: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Audio processed so far; at most one per second and session."""

    session_id: SessionId
    processed_ms: int


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """From here another worker could go on: records before the checkpoint's are not needed again."""

    session_id: SessionId
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Finished:
    """The last final has been sent; the worker has forgotten the session."""

    session_id: SessionId
    audio_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The session cannot go on; the worker has forgotten it."""

    session_id: SessionId
    error: StreamScribeError


WorkerEvent = Recognised | RulesHit | SpeechStarted | SpeechStopped | Flushed | Progress | Finished | Failed

Emitted = WorkerEvent | Checkpointed
"""What a worker gives its bus; checkpoints are for the bus itself."""
