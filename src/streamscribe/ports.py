"""The ports between the platform's processes: what a bus, a tenant store and a cache promise.

Adapters pass one suite each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.ids import LeaseEpoch, SessionId, TenantId
from streamscribe.core.lease import Lease
from streamscribe.core.options import Hotword
from streamscribe.core.records import Emitted, Record, SessionOpened, WorkerEvent
from streamscribe.core.rules import NO_POLICY, TextPolicy
from streamscribe.core.session_past import SessionPast
from streamscribe.core.session_table import Stage
from streamscribe.core.session_view import SessionPage, SessionView

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


class MovingBus(GatewayBus, Protocol):
    """A gateway's end of a bus whose log outlives gateways: a session may go on at another one."""

    def here(self, generation: int) -> "Place":
        """Where this gateway will hear of a session that begins, or goes on, here and now."""
        ...

    def stand(self, session_id: SessionId, mark: bytes) -> "Place | None":
        """The place from which another gateway may read on that knows the mark; None where that cannot be said now."""
        ...

    def expect(self, ticket: "Ticket") -> bool:
        """Keeps what is told of a session that is about to come, for `take_over`; False where it is here already."""
        ...

    async def take_over(self, ticket: "Ticket", past: SessionPast) -> None:
        """Takes a session from the gateways before this one, whose place is the ticket's last; fills in its `past`.

        Raises BusUnavailable where that takes too long, SessionSuperseded where another gateway was quicker, and
        SessionNotFound where the log does not reach back so far.
        """
        ...

    def go_on(self, session_id: SessionId, past: SessionPast) -> None:
        """The session of `take_over` is here: what its worker said meanwhile is delivered, and the rest as it comes."""
        ...

    def let_go(self, session_id: SessionId) -> None:
        """Another gateway may go on with the session: nothing more is told of it here, and its worker keeps it."""
        ...


class Bus(GatewayBus, WorkerBus, Protocol):
    """Both ends in one process."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: its quotas, the hot words of all its sessions and its rules for their texts.

    With `zero_retention` no cache keeps anything of it. `weight` is its share of the models beside other tenants'.
    One that `yields` is refused a little sooner than those with priority, where the load is high. An `operator` may ask
    for what concerns everybody (`/admin`).
    """

    tenant_id: TenantId
    max_sessions: int
    hotwords: tuple[Hotword, ...] = ()
    policy: TextPolicy = NO_POLICY
    zero_retention: bool = False
    max_new_sessions_per_min: int | None = None
    weight: int = 1
    yields: bool = False
    operator: bool = False


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

    def sweep(self) -> None:
        """Lets go of what has ended; cheap, and never raises. To be called now and then, as nobody else may call."""
        ...

    def verify(self) -> Verified:
        """Reads all blobs again and removes the damaged."""
        ...

    def close(self) -> None:
        """Lets go of connections; what is kept stays."""
        ...


@dataclass(frozen=True, slots=True)
class Seat:
    """A session's place among those that its tenant may have at once, and how its gateway sees the session.

    `session_id` is the session's on the bus, `called` what its client calls it.
    """

    session_id: SessionId
    tenant_id: TenantId
    called: SessionId
    gateway: str
    stage: Stage = Stage.CREATED
    received_ms: int = 0
    processed_ms: int = 0


class Kept(IntEnum):
    """What became of a seat that its gateway keeps: another gateway has the session; it is kept; it is kept, and the
    store has no ticket of the session (any more), so hand it in."""

    LOST = 0
    KEPT = 1
    NO_TICKET = 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway hears of a session: in the bus' partition of results `partition`, from `offset` on.

    `generation` says the how manieth gateway of the session it is, from 0. With a `mark` (`wire.session_mark`) all that
    must be known of what lies before is in there: workers had spoken up to `epoch`, and the session's records that are
    not in it lie from `audio_offset` on.
    """

    partition: int
    offset: int
    generation: int
    mark: bytes = b""
    epoch: LeaseEpoch | None = None
    audio_offset: int = 0


@dataclass(frozen=True, slots=True)
class Ticket:
    """What another gateway needs to let a session's client in: who it is, and where all that was told of it lies.

    `token_digest` is SHA-256 of the resume token, which itself is kept nowhere. `places` are those of all gateways that
    had the session, in order; the last one has it. Those whose results nobody needs any more are left out.
    """

    session_id: SessionId
    called: SessionId
    gateway: str
    token_digest: bytes
    opened: SessionOpened
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Since a store was opened here: writes refused to former owners, and calls that the store failed."""

    fenced: int = 0
    failures: int = 0


class SessionStore(Protocol):
    """Which worker owns a session, where another could go on with it, and how many sessions tenants have (law 2).

    All times are the store's: clocks of callers do not matter. `Lease.expires_at` is by the caller's monotonic clock,
    counted from before it asked, so that an owner's lease ends for itself no later than for the others. Where a lease
    is asked for, its epoch decides: of a session that has a newer one, or is forgotten, nothing is written. A session
    that nobody speaks of for long is forgotten.

    Each method ends within a time of the adapter's. Raises StoreUnavailable where the store cannot be used; then what
    was asked may be done or not, and may be asked again.
    """

    async def claim(self, session_id: SessionId, owner: str) -> Lease:
        """A lease of a new epoch, greater by one than the last; one's own lease in force is renewed instead.

        Its `ends` count the owner before, if that was another whose lease ended and was not released.
        Raises LeaseLost while another owner's is in force, with the time that it has left as `retry_after_s`.
        """
        ...

    async def renew(self, leases: Sequence[Lease]) -> list[Lease | None]:
        """Each lease with a later end, or None where it was lost: expired, released, or another's by now."""
        ...

    async def release(self, lease: Lease) -> None:
        """Ends the lease, if it is still in force, so that another owner need not wait."""
        ...

    async def save(
        self, lease: Lease, *, opened: SessionOpened | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        """Keeps what another owner needs; what is None, or older than what is kept, changes nothing.

        Raises LeaseLost for a lease that has a successor: counted, and nothing is written.
        """
        ...

    async def load(self, session_id: SessionId) -> SessionOpened | None:
        """What was saved, with the newest checkpoint; None where nothing is. Claim first: then it changes no more."""
        ...

    async def note(self, lease: Lease, place: int | None) -> None:
        """Notes where the owner is from now on, for the case that it ends there. None: at no place, and no end counts.

        With a checkpoint that goes further no end counts either. Raises LeaseLost as `save` does.
        """
        ...

    async def abandon(self, leases: Sequence[Lease], after_s: float) -> list[bool]:
        """Of each session that its owner has: whether no gateway has told of it for `after_s`, or has moved it here.

        Then no gateway can go on with it any more: its ticket is gone.
        """
        ...

    async def forget(self, lease: Lease) -> None:
        """The session is over for its worker. Raises LeaseLost as `save` does."""
        ...

    async def enter(self, seat: Seat, *, max_sessions: int, max_per_minute: int | None = None) -> None:
        """Takes a seat of the tenant's. A session that has one keeps it; one that another gateway has stays there.

        Raises QuotaExceeded where the tenant has `max_sessions`, or has begun `max_per_minute` within a minute.
        """
        ...

    async def keep(self, seats: Sequence[Seat]) -> list[Kept]:
        """Keeps seats, which end if nobody does, and tells the sessions' state; what became of each.

        A seat that has ended is taken again, for its session is there.
        """
        ...

    async def leave(self, seat: Seat) -> None:
        """The session is over for its gateway: its seat is free, unless another gateway has the session."""
        ...

    async def hand_in(self, ticket: Ticket) -> None:
        """Keeps a session's ticket, until its gateway leaves; that of a session that has moved since stays."""
        ...

    async def ticket(self, session_id: SessionId) -> Ticket | None:
        """The session's ticket; None where there is none."""
        ...

    async def move(self, ticket: Ticket) -> bool:
        """Another gateway takes the session: its name and its place, the last, are the ticket's now. Its seat is kept.

        False: another was quicker (the last place known is not the one before), and nothing is changed.
        """
        ...

    async def settle_places(self, ticket: Ticket, before: tuple[Place, ...]) -> bool:
        """Has the session read from the ticket's places, in place of `before`; False: they are others by now."""
        ...

    async def sessions(self, limit: int, tenant_id: TenantId | None = None) -> SessionPage:
        """At most `limit` sessions, of all tenants or of one."""
        ...

    async def session(self, session_id: SessionId) -> SessionView | None:
        """One session; None where the store knows nothing of it."""
        ...

    async def check(self) -> None:
        """Returns when the store takes what is written; raises StoreUnavailable."""
        ...

    def counts(self) -> StoreCounts:
        """What happened since the store was opened here."""
        ...

    async def close(self) -> None:
        """Lets go of connections; what is kept stays."""
        ...
