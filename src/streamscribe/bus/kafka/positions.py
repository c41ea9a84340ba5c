"""How far a partition may be committed: up to the oldest record that a session of it would still need."""

from collections import deque
from dataclasses import dataclass, field

from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure


@dataclass(slots=True)
class _Kept:
    """One session's records since its checkpoint, as (index, offset); bounded by the longest segment."""

    records: deque[tuple[int, int]] = field(default_factory=deque)
    begin: int = 0

    def trim(self) -> None:
        """Lets go of what nobody needs."""
        while len(self.records) > 1 and self.records[0][0] < self.begin:
            self.records.popleft()


class Positions:
    """The offsets of one partition that live sessions need, and the one to go on at.

    A session's last record is needed until the session is forgotten, whatever its checkpoints say: it tells the next
    worker that audio has ended, and the next gateway how much there was.
    Who takes the partition over begins at `committable`: of each session it finds all records from the checkpoint on.
    """

    def __init__(self) -> None:
        self._next: int | None = None
        self._kept: dict[SessionId, _Kept] = {}

    def read(self, offset: int) -> None:
        """The record at `offset` has come; nobody needs it, unless it is kept."""
        self._next = offset + 1

    def keep(self, session_id: SessionId, index: int, offset: int) -> None:
        """The session needs the record at `offset`, its record `index`."""
        kept = self._kept.setdefault(session_id, _Kept())
        kept.records.append((index, offset))
        kept.trim()

    def drop_before(self, session_id: SessionId, index: int) -> None:
        """The session can go on at its record `index`: those before are not needed again."""
        kept = self._kept.get(session_id)
        if kept is not None:
            kept.begin = max(kept.begin, index)
            kept.trim()

    def offset(self, session_id: SessionId, index: int) -> int | None:
        """Where the session's record `index` lies, or the next that is kept."""
        kept = self._kept.get(session_id)
        return next((offset for at, offset in kept.records if at >= index), None) if kept is not None else None

    def forget(self, session_id: SessionId) -> None:
        """The session is over: it needs nothing more."""
        self._kept.pop(session_id, None)

    def committable(self) -> int | None:
        """The offset to begin at after a takeover; None before the first record."""
        needed = [kept.records[0][1] for kept in self._kept.values() if kept.records]
        return min(needed, default=self._next)

    def check_integrity(self) -> None:
        """Offsets grow within a session, and nothing is needed before anything has come.

        What is needed may lie behind `_next`: the log may give again what was read before.
        """
        for kept in self._kept.values():
            offsets = [offset for _, offset in kept.records]
            ensure(offsets == sorted(set(offsets)), "offsets of a session grow")
            ensure(not offsets or self._next is not None, "needed <= read")
