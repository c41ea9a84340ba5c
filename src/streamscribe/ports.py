"""The ports between the platform's processes: what a bus and a tenant store promise. Adapters pass one suite each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.options import Hotword
from streamscribe.core.records import Record, WorkerEvent
from streamscribe.core.rules import NO_POLICY, TextPolicy

RecordHandler = Callable[[Record], None]
EventHandler = Callable[[WorkerEvent], None]


class Bus(Protocol):
    """Carries records of a session in order to one worker, and that worker's events back to its gateway.

    Bound: at most `max_backlog_s` seconds of audio per session are published and not yet settled.
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

    def attach_worker(self, handler: RecordHandler) -> None:
        """Gives each record to `handler`, which must not block: in order within a session, sessions side by side.

        `SessionAbandoned` overtakes what waits; records of a session that is over are dropped.
        """
        ...

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """The worker has processed one record of so many audio bytes: its place in the backlog is free."""
        ...

    def emit(self, event: WorkerEvent) -> None:
        """Sends a worker's event back; in order within a session."""
        ...

    def attach_gateway(self, handler: EventHandler) -> None:
        """Gives each worker event of this gateway's sessions to `handler`, which must not block."""
        ...

    async def close(self) -> None:
        """Stops delivery."""
        ...


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: its quota, the hot words of all its sessions and its rules for their texts."""

    tenant_id: TenantId
    max_sessions: int
    hotwords: tuple[Hotword, ...] = ()
    policy: TextPolicy = NO_POLICY


class TenantStore(Protocol):
    """Who may enter."""

    def authenticate(self, key: str) -> Tenant | None:
        """The tenant whose key this is, in time that does not depend on which part of it is wrong."""
        ...
