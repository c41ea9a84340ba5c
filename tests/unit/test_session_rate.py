"""How many sessions a tenant may begin in a minute, by any clock."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.admission import MINUTE_S, SessionRate
from streamscribe.core.ids import TenantId

ACME, OTHER = TenantId("acme"), TenantId("other")


def test_so_many_begin_at_once_and_the_next_one_hears_when_to_come_back():
    rate = SessionRate()
    for at in (0.0, 1.0, 2.0):
        assert rate.refusal(ACME, 3, at) is None
        rate.begin(ACME, at)
    refused = rate.refusal(ACME, 3, 10.0)
    assert refused is not None
    assert refused.retry_after_s == MINUTE_S - 10.0
    assert rate.refusal(OTHER, 3, 10.0) is None
    assert rate.refusal(ACME, 3, MINUTE_S) is None


def test_a_limit_that_was_lowered_says_when_so_few_will_have_begun():
    rate = SessionRate()
    for at in (0.0, 1.0, 2.0):
        rate.begin(ACME, at)
    refused = rate.refusal(ACME, 1, 10.0)
    assert refused is not None
    assert refused.retry_after_s == 2.0 + MINUTE_S - 10.0


@given(st.lists(st.tuples(st.sampled_from([ACME, OTHER]), st.floats(0, 30)), max_size=60), st.integers(1, 5))
def test_law_7_in_no_minute_do_more_begin_than_may_and_the_time_told_is_right(steps, limit):
    rate, now = SessionRate(), 0.0
    begun: list[tuple[TenantId, float]] = []
    for tenant, passed_s in steps:
        now += passed_s
        refused = rate.refusal(tenant, limit, now)
        recent = [at for who, at in begun if who == tenant and now < at + MINUTE_S]
        assert (refused is None) == (len(recent) < limit)
        if refused is None:
            rate.begin(tenant, now)
            begun.append((tenant, now))
        else:
            assert refused.retry_after_s is not None
            assert rate.refusal(tenant, limit, now + refused.retry_after_s + 1e-6) is None
            rate.check_integrity()


def test_tenants_that_began_nothing_lately_are_forgotten():
    rate = SessionRate()
    for number in range(1000):
        rate.begin(TenantId(f"t{number}"), number * MINUTE_S)
    assert len(rate._begun) <= 64


def test_a_session_that_was_none_is_taken_back():
    rate = SessionRate()
    rate.begin(ACME, 0.0)
    rate.begin(ACME, 1.0)
    rate.take_back(ACME)
    rate.check_integrity()
    assert rate.refusal(ACME, 2, 2.0) is None
    assert rate.refusal(ACME, 1, 2.0) is not None
    rate.take_back(ACME)
    rate.take_back(ACME)
    assert rate.refusal(ACME, 1, 2.0) is None
