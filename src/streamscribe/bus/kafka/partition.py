"""One partition at the worker's end: its sessions, what of them is not settled, and how far it may be committed."""

from collections import OrderedDict
from dataclasses import dataclass, field

from streamscribe.bus.kafka.owned import Owned
from streamscribe.bus.kafka.positions import Positions
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.integrity import ensure

MAX_UNSETTLED_BYTES, MAX_UNSETTLED_RECORDS = 2**23, 20_000
"""What the worker has of one partition's sessions, beyond which it is paused; it goes on at half."""

MAX_HELD_BYTES, MAX_HELD_RECORDS = 2**25, 80_000
"""The same of what is held for sessions that wait for their lease, or their turn in a trial. More, for while the store
is away they wait long, and who is live waits with them once they have filled this."""

_MAX_REMEMBERED = 1024


@dataclass(slots=True)
class Partition:
    """A partition of ours. `gone` has the sessions that were let go last: their late records are dropped. Where one
    is over for everybody, it has the epoch in which that was.

    Once `read_through`, all has come that was in the log when we got it, as far as `marked` shows. Until then it is not
    paused for what is held: suspects hold their records until the mark has come. What that may be is bounded where it
    came from, by what gateways let in of a session that is not processed.
    """

    number: int
    positions: Positions = field(default_factory=Positions)
    sessions: dict[SessionId, Owned] = field(default_factory=dict)
    gone: OrderedDict[SessionId, LeaseEpoch | None] = field(default_factory=OrderedDict)
    unsettled_bytes: int = 0
    unsettled_records: int = 0
    held_bytes: int = 0
    held_records: int = 0
    paused: bool = False
    in_doubt: bool = False
    """Whether it is to be looked at soon whose it is: another worker has had a session of it."""
    marked: bool = False
    read_through: bool = False

    def come(self, session: Owned, size_bytes: int) -> None:
        """A record of so many audio bytes is to be settled."""
        self._count(session, size_bytes, 1)

    def settle(self, session: Owned, size_bytes: int) -> bool:
        """One is processed, or passed over; False where none of the session's was left."""
        if not session.unsettled_records:
            return False
        self._count(session, -size_bytes, -1)
        return True

    def give(self, session: Owned) -> None:
        """Nothing of it is held any more: what comes is the worker's at once."""
        if not session.given:
            session.given = True
            self.held_bytes -= session.unsettled_bytes
            self.held_records -= session.unsettled_records

    def let_go(self, session: Owned) -> None:
        """The session is over here."""
        if self.sessions.pop(session.session_id, None) is None:
            return
        self._count(session, -session.unsettled_bytes, -session.unsettled_records)
        self.gone[session.session_id] = (session.epoch or LeaseEpoch(0)) if session.ended else None
        if len(self.gone) > _MAX_REMEMBERED:
            self.gone.popitem(last=False)

    def turns(self) -> bool:
        """Whether it is to be paused now, or to go on: `paused` has changed."""
        given_bytes, given_records = self.unsettled_bytes - self.held_bytes, self.unsettled_records - self.held_records
        load = max(given_bytes / MAX_UNSETTLED_BYTES, given_records / MAX_UNSETTLED_RECORDS)
        if self.read_through or not self.marked:
            load = max(load, self.held_bytes / MAX_HELD_BYTES, self.held_records / MAX_HELD_RECORDS)
        before = self.paused
        self.paused = load >= (0.5 if before else 1.0)
        return self.paused != before

    def _count(self, session: Owned, size_bytes: int, records: int) -> None:
        for ledger in (self, session):
            ledger.unsettled_bytes += size_bytes
            ledger.unsettled_records += records
        if not session.given:
            self.held_bytes += size_bytes
            self.held_records += records

    def check_integrity(self) -> None:
        """What is not settled, and what of that is held, are the sums of its sessions'."""
        self.positions.check_integrity()
        for session in self.sessions.values():
            session.check_integrity()
        for sessions, of_all in (
            (self.sessions.values(), (self.unsettled_bytes, self.unsettled_records)),
            ([one for one in self.sessions.values() if not one.given], (self.held_bytes, self.held_records)),
        ):
            summed = sum(one.unsettled_bytes for one in sessions), sum(one.unsettled_records for one in sessions)
            ensure(summed == of_all, "a partition's load is its sessions'")
