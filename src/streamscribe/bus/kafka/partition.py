"""One partition at the worker's end: its sessions, what of them is not settled, and how far it may be committed."""

from collections import OrderedDict
from dataclasses import dataclass, field

from streamscribe.bus.kafka.owned import Owned
from streamscribe.bus.kafka.positions import Positions
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.integrity import ensure

MAX_UNSETTLED_BYTES, MAX_UNSETTLED_RECORDS = 2**23, 20_000
"""Of one partition's sessions, beyond which it is paused; it goes on at half."""

_MAX_REMEMBERED = 1024


@dataclass(slots=True)
class Partition:
    """A partition of ours. `gone` has the sessions that were let go last: their late records are dropped. Where one
    is over for everybody, it has the epoch in which that was.

    Once `read_through`, all has come that was in the log when we got it, as far as `marked` shows.
    """

    number: int
    positions: Positions = field(default_factory=Positions)
    sessions: dict[SessionId, Owned] = field(default_factory=dict)
    gone: OrderedDict[SessionId, LeaseEpoch | None] = field(default_factory=OrderedDict)
    unsettled_bytes: int = 0
    unsettled_records: int = 0
    paused: bool = False
    marked: bool = False
    read_through: bool = False

    def come(self, session: Owned, size_bytes: int) -> None:
        """A record of so many audio bytes is the worker's to settle."""
        for ledger in (self, session):
            ledger.unsettled_bytes += size_bytes
            ledger.unsettled_records += 1

    def settle(self, session: Owned, size_bytes: int) -> bool:
        """One is processed, or passed over; False where none of the session's was left."""
        if not session.unsettled_records:
            return False
        for ledger in (self, session):
            ledger.unsettled_bytes -= size_bytes
            ledger.unsettled_records -= 1
        return True

    def let_go(self, session: Owned) -> None:
        """The session is over here."""
        if self.sessions.pop(session.session_id, None) is None:
            return
        self.unsettled_bytes -= session.unsettled_bytes
        self.unsettled_records -= session.unsettled_records
        self.gone[session.session_id] = (session.epoch or LeaseEpoch(0)) if session.ended else None
        if len(self.gone) > _MAX_REMEMBERED:
            self.gone.popitem(last=False)

    def turns(self) -> bool:
        """Whether it is to be paused now, or to go on: `paused` has changed."""
        load = max(self.unsettled_bytes / MAX_UNSETTLED_BYTES, self.unsettled_records / MAX_UNSETTLED_RECORDS)
        before = self.paused
        self.paused = load >= (0.5 if before else 1.0)
        return self.paused != before

    def check_integrity(self) -> None:
        """What is not settled is the sum of its sessions'."""
        self.positions.check_integrity()
        for session in self.sessions.values():
            session.check_integrity()
        held = sum(session.unsettled_bytes for session in self.sessions.values())
        records = sum(session.unsettled_records for session in self.sessions.values())
        ensure((held, records) == (self.unsettled_bytes, self.unsettled_records), "a partition's load is its sessions'")
