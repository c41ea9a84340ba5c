"""Any coming and going of sessions keeps the quota's books, and pacing keeps any sender to its rate."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamscribe.core.admission import AudioRate, SessionQuota
from streamscribe.core.errors import Overloaded, QuotaExceeded
from streamscribe.core.ids import TenantId

TENANTS = [TenantId("ann"), TenantId("bob"), TenantId("eve")]
MAX_SESSIONS, TENANT_SESSIONS = 5, 3


class QuotaMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.quota = SessionQuota(MAX_SESSIONS)
        self.open: list[TenantId] = []

    @rule(tenant=st.sampled_from(TENANTS))
    def a_session_is_admitted_or_told_which_limit_is_reached(self, tenant):
        error = self.quota.admit(tenant, TENANT_SESSIONS)
        if self.open.count(tenant) >= TENANT_SESSIONS:
            assert isinstance(error, QuotaExceeded)
        elif len(self.open) >= MAX_SESSIONS:
            assert isinstance(error, Overloaded)
        else:
            assert error is None
            self.open.append(tenant)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_session_ends(self, data):
        tenant = data.draw(st.sampled_from(self.open))
        self.open.remove(tenant)
        self.quota.release(tenant)

    @invariant()
    def the_books_are_right(self):
        self.quota.check_integrity()
        assert self.quota.total == len(self.open)
        assert all(self.quota.of(tenant) == self.open.count(tenant) for tenant in TENANTS)


TestQuota = QuotaMachine.TestCase


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3)), max_size=60))
def test_law_7_a_sender_that_pauses_as_told_never_gets_more_than_the_rate_and_one_burst(steps):
    rate = AudioRate(max_rate=2, burst_s=10, max_burst_s=300)
    now, sent = 0.0, 0.0
    for audio_s, pause_s in steps:
        until = rate.admit(audio_s, now)
        assert until is not None
        sent += audio_s
        assert sent <= 10 + 2 * now + 5 + 1e-6
        now = max(until, now) + pause_s
        rate.check_integrity()
