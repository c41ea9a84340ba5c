"""In any order of comings and goings each waiter is answered once, and each key is computed once at a time."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamscribe.core.singleflight import Lead, SingleFlight


class SingleFlightMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.flights = SingleFlight()
        self.running: dict[int, str] = {}
        self.cancelled: set[int] = set()
        self.waiting: dict[int, list[int]] = {}
        self.next_waiter = 0

    @rule(key=st.sampled_from("abc"))
    def a_key_is_computed_once_at_a_time(self, key):
        waiter, self.next_waiter = self.next_waiter, self.next_waiter + 1
        joined = self.flights.join(key, waiter)
        assert isinstance(joined, Lead) == (key not in self.running.values())
        if isinstance(joined, Lead):
            assert joined.flight not in self.waiting
            self.running[joined.flight] = key
        assert self.running[joined.flight] == key
        self.waiting.setdefault(joined.flight, []).append(waiter)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def law_8_an_end_reaches_exactly_those_who_wait(self, data):
        flight = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[flight]
        assert list(self.flights.end(flight)) == self.waiting.pop(flight)

    @precondition(lambda self: self.cancelled)
    @rule(data=st.data())
    def what_was_cancelled_answers_nobody(self, data):
        assert self.flights.end(data.draw(st.sampled_from(sorted(self.cancelled)))) == ()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def only_the_last_to_leave_cancels(self, data):
        flight = data.draw(st.sampled_from(sorted(self.running)))
        waiter = data.draw(st.sampled_from(self.waiting[flight]))
        self.waiting[flight].remove(waiter)
        last = not self.waiting[flight]
        assert self.flights.leave(waiter) == (flight if last else None)
        if last:
            del self.running[flight], self.waiting[flight]
            self.cancelled.add(flight)

    @invariant()
    def the_books_are_right(self):
        self.flights.check_integrity()
        assert len(self.flights) == len(self.running)


TestSingleFlight = SingleFlightMachine.TestCase
