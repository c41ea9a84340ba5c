from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamscribe.bus.kafka.positions import Positions
from streamscribe.core.ids import SessionId

names = st.sampled_from([SessionId(name) for name in "abc"])


class PositionsMachine(RuleBasedStateMachine):
    """Beside the ledger: the whole log of one partition, as (session, index), None where nobody needs the record."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = Positions()
        self.log: list[tuple[SessionId, int] | None] = []
        self.next: int | None = None
        self.came: dict[SessionId, int] = {}
        self.checkpoint: dict[SessionId, int] = {}

    @rule(session_id=names)
    def record(self, session_id: SessionId) -> None:
        offset, index = len(self.log), self.came.get(session_id, 0)
        self.log.append((session_id, index))
        self.came[session_id] = index + 1
        self.read(offset)
        self.positions.keep(session_id, index, offset)

    @rule()
    def stranger(self) -> None:
        self.read(len(self.log))
        self.log.append(None)

    @rule(share=st.floats(0, 1))
    def is_given_again(self, share: float) -> None:
        if self.log:
            self.read(int(share * (len(self.log) - 1)))

    @rule(session_id=names, share=st.floats(0, 1))
    def go_further(self, session_id: SessionId, share: float) -> None:
        if session_id not in self.came:
            return
        index = max(self.checkpoint.get(session_id, 0), int(share * (self.came[session_id] + 1)))
        self.checkpoint[session_id] = index
        self.positions.drop_before(session_id, index)

    @rule(session_id=names)
    def end(self, session_id: SessionId) -> None:
        self.log = [None if entry is not None and entry[0] == session_id else entry for entry in self.log]
        for known in (self.came, self.checkpoint):
            known.pop(session_id, None)
        self.positions.forget(session_id)

    @invariant()
    def the_next_owner_finds_what_each_session_needs_and_no_record_too_many(self) -> None:
        self.positions.check_integrity()
        needed = [offset for offset, entry in enumerate(self.log) if entry is not None and self.needs(*entry)]
        assert self.positions.committable() == min(needed, default=self.next)

    def read(self, offset: int) -> None:
        self.positions.read(offset)
        self.next = offset + 1

    def needs(self, session_id: SessionId, index: int) -> bool:
        return index >= self.checkpoint.get(session_id, 0) or index == self.came[session_id] - 1


TestPositions = PositionsMachine.TestCase
