"""Whatever workers do and however late they are, a session has one owner and epochs only grow."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamscribe.core.ids import SessionId
from streamscribe.core.lease import Lease, LeaseTable

SESSION = SessionId("s1")
TTL_S = 10.0
OWNERS = st.sampled_from(["w1", "w2", "w3"])


class LeaseMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = LeaseTable(TTL_S)
        self.now = 0.0
        self.believed: dict[str, Lease] = {}
        self.newest = 0
        self.in_force: Lease | None = None

    @rule(seconds=st.floats(0, 6))
    def time_passes(self, seconds):
        self.now += seconds
        if self.in_force and self.now >= self.in_force.expires_at:
            self.in_force = None

    @rule(owner=OWNERS)
    def law_2_a_session_has_one_owner(self, owner):
        lease = self.table.acquire(SESSION, owner, self.now)
        assert (lease is None) == (self.in_force is not None and self.in_force.owner != owner)
        if lease:
            assert lease.epoch == (self.newest if self.in_force else self.newest + 1)
            assert lease.expires_at == self.now + TTL_S
            self.newest, self.in_force = lease.epoch, lease
            self.believed[owner] = lease

    @rule(owner=OWNERS)
    def law_2_only_a_lease_in_force_is_renewed(self, owner):
        if believed := self.believed.get(owner):
            renewed = self.table.renew(believed, self.now)
            assert (renewed is not None) == (self.in_force is not None and self.in_force.epoch == believed.epoch)
            if renewed:
                self.in_force = self.believed[owner] = renewed

    @rule(owner=OWNERS)
    def a_release_frees_ones_own_only(self, owner):
        if believed := self.believed.pop(owner, None):
            self.table.release(believed, self.now)
            if self.in_force and self.in_force.epoch == believed.epoch:
                self.in_force = None

    @rule(owner=OWNERS)
    def law_2_writes_of_an_older_epoch_are_refused(self, owner):
        if believed := self.believed.get(owner):
            assert (self.table.fence(SESSION, believed.epoch) is None) == (believed.epoch == self.newest)

    @rule()
    def law_2_a_forgotten_session_takes_no_writes_and_repeats_no_epoch(self):
        self.table.forget(SESSION)
        for lease in self.believed.values():
            assert self.table.fence(SESSION, lease.epoch) is not None
        self.believed.clear()
        self.in_force = None

    @invariant()
    def the_books_are_right(self):
        self.table.check_integrity()


TestLease = LeaseMachine.TestCase
