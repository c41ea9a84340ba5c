"""When the second pass is behind, and when no longer, with a chosen clock."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.degrade import EASED, SecondPassLag


def test_it_is_behind_from_the_first_that_waited_in_vain_until_those_left_have_waited_half_as_long():
    lag = SecondPassLag(4.0)
    first, second = lag.ask(0.0), lag.ask(1.0)
    assert first is not None
    assert second is not None
    lag.give_back(first, late=True)
    assert lag.ask(4.0) is None
    assert lag.lag_s(4.0) == 3.0
    lag.give_back(second, late=False)
    assert lag.ask(4.5) is not None
    assert lag.ask(4.5) is not None


def test_while_the_rest_gets_through_in_time_nothing_flaps():
    lag = SecondPassLag(4.0)
    tickets = [lag.ask(at) for at in (0.0, 2.0, 2.5)]
    lag.give_back(tickets[0], late=True)
    assert lag.ask(4.4) is None
    lag.give_back(tickets[1], late=False)
    assert lag.ask(4.4) is not None


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
            ticket = lag.ask(now)
            assert (ticket is None) == behind
            if ticket is not None:
                waiting[ticket] = now
            assert never.ask(now) is not None
        elif waiting:
            ticket = next(iter(waiting))
            del waiting[ticket]
            lag.give_back(ticket, late=what == "late")
            behind = behind or what == "late"
        lag.check_integrity()
        never.check_integrity()
