"""When the second pass is behind, and when no longer, with a chosen clock."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.degrade import EASED, SecondPassLag


def test_it_is_behind_from_the_first_that_waited_in_vain_until_those_left_have_waited_half_as_long():
    lag = SecondPassLag(4.0)
    first, second = lag.ask("a", 0.0), lag.ask("a", 1.0)
    assert first is not None
    assert second is not None
    lag.give_back("a", first, late=True)
    assert lag.ask("a", 4.0) is None
    assert lag.lag_s("a", 4.0) == 3.0
    lag.give_back("a", second, late=False)
    assert lag.ask("a", 4.5) is not None
    assert lag.ask("a", 4.5) is not None


def test_while_the_rest_gets_through_in_time_nothing_flaps():
    lag = SecondPassLag(4.0)
    tickets = [lag.ask("a", at) for at in (0.0, 2.0, 2.5)]
    lag.give_back("a", tickets[0], late=True)
    assert lag.ask("a", 4.4) is None
    lag.give_back("a", tickets[1], late=False)
    assert lag.ask("a", 4.4) is not None


def test_a_tenant_that_is_behind_keeps_no_other_from_its_second_pass():
    lag = SecondPassLag(4.0)
    late, waits, served = lag.ask("a", 0.0), lag.ask("a", 1.0), lag.ask("b", 1.0)
    assert (late, waits, served) == (0, 1, 2)
    lag.give_back("a", 0, late=True)
    assert lag.ask("a", 4.0) is None
    assert lag.lag_s("b", 4.0) == 3.0
    assert lag.ask("b", 4.0) is not None
    assert lag.ask("c", 4.0) is not None
    lag.check_integrity()


def test_of_a_tenant_of_whom_nothing_waits_nothing_is_kept():
    lag = SecondPassLag(4.0)
    for tenant in range(1000):
        ticket = lag.ask(tenant, 0.0)
        assert ticket is not None
        lag.give_back(tenant, ticket, late=tenant % 2 == 0)
        lag.check_integrity()
    assert not lag._asked


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from(["ask", "answer", "late"])), max_size=60))
def test_without_lateness_everyone_is_asked_for_and_with_it_nobody_waits_beside_the_old(steps):
    lag, never, now = SecondPassLag(4.0), SecondPassLag(inf), 0.0
    waiting: dict[int, float] = {}
    behind = False
    for passed_s, what in steps:
        now += passed_s
        if what == "ask":
            oldest_s = now - min(waiting.values(), default=now)
            behind = behind and oldest_s >= EASED * 4.0
            ticket = lag.ask("a", now)
            assert (ticket is None) == behind
            if ticket is not None:
                waiting[ticket] = now
            assert never.ask("a", now) is not None
        elif waiting:
            ticket = next(iter(waiting))
            del waiting[ticket]
            lag.give_back("a", ticket, late=what == "late")
            behind = behind or what == "late"
        lag.check_integrity()
        never.check_integrity()
