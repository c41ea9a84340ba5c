"""Sessions are spread by voices; a worker's end leaves its sessions to the others."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamscribe.core.fleet import Fleet
from streamscribe.core.ids import SessionId
from streamscribe.core.restarts import FIRST_PAUSE_S, LONG_LIFE_S, LONGEST_PAUSE_S, Patience, Restarts


def fleet_of(*members: int) -> Fleet:
    fleet = Fleet()
    for member in members:
        fleet.join(member)
    return fleet


def test_the_member_with_the_fewest_voices_comes_first() -> None:
    fleet = fleet_of(0, 1, 2)
    fleet.seat(SessionId("a"), 2, 0)
    fleet.seat(SessionId("b"), 1, 1)
    assert fleet.by_load == [2, 1, 0]


def test_a_session_stays_where_it_is_seated_until_its_member_leaves() -> None:
    fleet = fleet_of(0, 1)
    fleet.seat(SessionId("a"), 1, 0)
    assert fleet.reseat(SessionId("a")) == 0
    fleet.leave(0)
    assert fleet.member_of(SessionId("a")) is None
    assert fleet.reseat(SessionId("a")) == 1


def test_the_sessions_of_a_member_that_left_are_spread_over_the_others() -> None:
    fleet = fleet_of(0, 1, 2)
    names = [SessionId(f"s{number}") for number in range(6)]
    for name in names:
        fleet.seat(name, 1, 0)
    fleet.leave(0)
    assert sorted(filter(None, map(fleet.reseat, names))) == [1, 1, 1, 2, 2, 2]


def test_a_session_without_a_member_gets_the_next_that_joins() -> None:
    fleet = Fleet()
    fleet.seat(SessionId("a"), 1, None)
    assert fleet.reseat(SessionId("a")) is None
    fleet.join(4)
    assert fleet.reseat(SessionId("a")) == 4


def test_a_session_that_is_over_frees_its_voices() -> None:
    fleet = fleet_of(0)
    fleet.seat(SessionId("a"), 3, 0)
    assert fleet.forget(SessionId("a")) == 0
    assert fleet.voices(0) == 0
    assert fleet.forget(SessionId("a")) is None


def test_pauses_double_while_lives_are_short_and_are_short_again_after_a_long_one() -> None:
    restarts = Restarts()
    pauses = [restarts.ended(1) for _ in range(12)]
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert restarts.ended(LONG_LIFE_S) == FIRST_PAUSE_S


def test_silence_is_counted_until_a_sign_of_life() -> None:
    patience = Patience(0.25, now=100.0)
    assert patience.look(alive=False, now=100.25) == 0.25
    assert patience.look(alive=False, now=100.75) == 0.75
    assert patience.look(alive=True, now=101.0) == 0
    assert patience.look(alive=False, now=101.25) == 0.25


def test_nobody_is_blamed_for_the_time_in_which_nobody_looked() -> None:
    patience = Patience(0.25, now=100.0)
    assert patience.look(alive=False, now=3700.0) == 0.5


class FleetMachine(RuleBasedStateMachine):
    """Any order of joining, leaving, seating and forgetting keeps the books."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.seated: set[SessionId] = set()

    @rule(member=st.integers(0, 3))
    def join(self, member: int) -> None:
        self.fleet.join(member)

    @rule(member=st.integers(0, 3))
    def leave(self, member: int) -> None:
        self.fleet.leave(member)

    @rule(number=st.integers(0, 9), voices=st.integers(1, 4))
    def seat(self, number: int, voices: int) -> None:
        session = SessionId(f"s{number}")
        if session not in self.seated:
            self.fleet.seat(session, voices, next(iter(self.fleet.by_load), None))
            self.seated.add(session)

    @rule(number=st.integers(0, 9))
    def reseat(self, number: int) -> None:
        session = SessionId(f"s{number}")
        member = self.fleet.reseat(session)
        assert (member is not None) == (session in self.seated and bool(self.fleet.by_load))

    @rule(number=st.integers(0, 9))
    def forget(self, number: int) -> None:
        self.fleet.forget(SessionId(f"s{number}"))
        self.seated.discard(SessionId(f"s{number}"))

    @invariant()
    def the_books_are_right(self) -> None:
        self.fleet.check_integrity()
        assert len(self.fleet) == len(self.seated)


TestFleetMachine = FleetMachine.TestCase
TestFleetMachine.settings = settings(max_examples=50, deadline=None)
