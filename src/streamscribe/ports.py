"""The ports between the platform's processes: what a bus, a tenant store and a cache promise.

Adapters pass one suite each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.options import Hotword
from streamscribe.core.records import Emitted, Record, WorkerEvent
from streamscribe.core.rules import NO_POLICY, TextPolicy

RecordHandler = Callable[[Record], None]
EventHandler = Callable[[WorkerEvent], None]


class GatewayBus(Protocol):
    """The gateway's end of a bus: carries the records of a session in order to one worker, and brings its events back.

    Bound: at most `max_backlog_s` seconds of audio per session are published and not yet settled. Which worker has a
    session is the bus' affair; where another takes it over, nothing published is lost, and what it tells again of the
    same audio is told again (`core.downlink` drops it).
    """

    @property
    def durability(self) -> str:
        """What a completed `publish` means: `process` (this process' memory) or `log` (replicated)."""
        ...

    def room(self, session_id: SessionId, size_bytes: int) -> bool:
        """Whether `publish` of so much audio would return at once."""
        ...

    async def publish(self, record: Record) -> None:
        """Returns when the record is durable; waits while the session's backlog is full. Cancelling loses nothing."""
        ...

    def attach_gateway(self, handler: EventHandler) -> None:
        """Gives each worker event of this gateway's sessions to `handler`, which must not block."""
        ...

    async def close(self) -> None:
        """Stops delivery."""
        ...


class WorkerBus(Protocol):
    """A worker's end of a bus: gives it the records of its sessions, and takes its events."""

    def attach_worker(self, handler: RecordHandler) -> None:
        """Gives each record to `handler`, which must not block: in order within a session, sessions side by side.

        A session begins with its `SessionOpened`. Where that has a checkpoint, another worker had the session before:
        the records that follow begin with the checkpoint's. `SessionAbandoned` overtakes what waits: nobody wants the
        session, or another worker has it; records of a session that is over are dropped.
        """
        ...

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """The worker has processed one record of so many audio bytes: its place in the backlog is free."""
        ...

    def emit(self, event: Emitted) -> None:
        """Sends a worker's event back; in order within a session. A `Checkpointed` is for the bus itself."""
        ...

    async def close(self) -> None:
        """Stops delivery."""
        ...


class Bus(GatewayBus, WorkerBus, Protocol):
    """Both ends in one process."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: its quota, the hot words of all its sessions and its rules for their texts.

    With `zero_retention` no cache keeps anything of it.
    """

    tenant_id: TenantId
    max_sessions: int
    hotwords: tuple[Hotword, ...] = ()
    policy: TextPolicy = NO_POLICY
    zero_retention: bool = False


class TenantStore(Protocol):
    """Who may enter."""

    def authenticate(self, key: str) -> Tenant | None:
        """The tenant whose key this is, in time that does not depend on which part of it is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Blob:
    """What a blob store gave, whose it is, and for how many more seconds it may be kept."""

    data: bytes
    owner: Owner
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What a blob store holds, and what it has met since it was opened.

    `damaged` blobs were found and removed; `failures` are calls that the storage failed. Of a store that is not
    `available` entries and bytes are unknown, and told as 0.
    """

    entries: int
    size_bytes: int
    damaged: int = 0
    failures: int = 0
    available: bool = True


@dataclass(frozen=True, slots=True)
class Verified:
    """How many blobs were read again, and how many of them were damaged and are removed."""

    checked: int
    damaged: int


class BlobStore(Protocol):
    """Keeps bytes for a time, each under a key and for an owner. A cache: at any time anything may be gone.

    Methods block: call them from worker threads, never on the event loop; any thread may, also at once. A blob is got
    as it was put for that key, or not at all: what does not verify is a miss, removed and counted. Trouble of the
    storage is a miss for `get`, False for `put`, and counted; to who wants something gone or counted it is told, as
    CacheUnavailable.
    """

    def get(self, key: CacheKey) -> Blob | None:
        """The blob, which counts as used now."""
        ...

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it for at most `ttl_s`, in place of what `key` had before; False: it is not kept."""
        ...

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob; False when it is not there."""
        ...

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone; how many there were."""
        ...

    def usage(self) -> Usage:
        """What it holds; may take as long as reading all its keys. Never raises."""
        ...

    def verify(self) -> Verified:
        """Reads all blobs again and removes the damaged."""
        ...

    def close(self) -> None:
        """Lets go of connections; what is kept stays."""
        ...
