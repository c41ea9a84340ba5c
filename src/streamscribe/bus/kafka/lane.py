"""A session at the gateway's end of the log: what was published of it, what of that is processed, and who waits."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from streamscribe.bus.backlog import Backlog
from streamscribe.bus.kafka.envelope import Settled
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import LeaseEpoch
from streamscribe.core.records import Record, WorkerEvent
from streamscribe.ports import Ticket

Waiter = asyncio.Future[None]


@dataclass(slots=True)
class Lane:
    """One session's ledger; what waits for room is bounded by its publishers, who wait with it."""

    backlog: Backlog
    trace_id: str
    published_bytes: int = 0
    published_records: int = 0
    settled_bytes: int = 0
    settled_records: int = 0
    epoch: LeaseEpoch | None = None
    error: StreamScribeError | None = None
    waiting: deque[tuple[Record, Waiter]] = field(default_factory=deque)
    generation: int = 0
    next_sequence: int | None = None
    """Of the chunk that comes next; None before the first."""
    held: deque[tuple[WorkerEvent, LeaseEpoch]] | None = None
    """What comes while the session's past is read."""
    moved: bool = False
    """Whether what comes is told to this gateway for sure: a former one's on the same partition is of the past."""
    doubt: asyncio.TimerHandle | None = None
    """Ends the session, unless its owner speaks before."""

    @classmethod
    def coming(cls, ticket: Ticket, max_backlog_s: float) -> "Lane":
        """Of a session that comes from another gateway."""
        opened, here = ticket.opened, ticket.places[-1]
        backlog = Backlog(max_backlog_s, opened.options.audio.bytes_per_second)
        moved = all(place.partition != here.partition for place in ticket.places[-2:-1])
        return cls(backlog, opened.trace_id, generation=here.generation, held=deque(), moved=moved)

    def trust(self) -> None:
        """Its owner has spoken, or the session is here no more."""
        if self.doubt is not None:
            self.doubt.cancel()
            self.doubt = None

    def settle(self, settled: Settled) -> None:
        """A worker that hears audio again settles it again: only what goes further counts."""
        self.settled_bytes = max(self.settled_bytes, min(settled.audio_bytes, self.published_bytes))
        self.settled_records = max(self.settled_records, min(settled.records, self.published_records))
        self.backlog.unsettled_bytes = self.published_bytes - self.settled_bytes
        self.backlog.unsettled_records = self.published_records - self.settled_records

    def fail(self, error: StreamScribeError) -> None:
        """A record is missing in the log: nothing after it is of use."""
        self.error = self.error or error
        self.free(self.error)

    def free(self, error: StreamScribeError | None = None) -> None:
        """Frees all publishers; their records are dropped."""
        self.trust()
        while self.waiting:
            _, waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None) if error is None else waiter.set_exception(error)
