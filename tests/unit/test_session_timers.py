"""The one timer of a session."""

from collections.abc import Callable

import pytest

from streamscribe.core.errors import AudioTooLong, FinalizationTimeout, SequenceGap, Timeout
from streamscribe.core.messages import Audio, End, Ping
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioEnded, Progress, SessionAbandoned
from streamscribe.core.session_io import (
    ConnectionLost,
    ConnectionResumed,
    Disconnect,
    Durable,
    Effect,
    Pace,
    Release,
    Tick,
)
from streamscribe.core.session_table import Stage
from streamscribe.core.session_timers import AWAKE_S, LATE_S, MAX_PUT_OFF
from tests.unit.session_kit import SECOND, SEQUENCED, SESSION, Driver, only, recognised, records, sent


def test_a_session_without_audio_is_closed_however_often_it_pings() -> None:
    session = Driver()
    session(Ping(), at=19.0)
    assert session.session.next_timer() == 20.0
    effects = session(Tick(), at=20.0)
    error = only(sent(effects)).error
    assert isinstance(error, Timeout)
    assert error.message == "no audio came for 20 s"
    assert effects[1:] == [Disconnect(error), Release(error)]


def test_a_tick_before_its_time_does_nothing() -> None:
    assert Driver()(Tick(), at=1.0) == []


def test_a_session_without_any_message_is_idle() -> None:
    session = Driver().stream()
    session(Ping(), at=10.0)
    assert session.session.next_timer() == 40.0
    effects = session(Tick(), at=40.0)
    assert only(sent(effects)).error.message == "nothing came for 30 s"
    assert isinstance(only(records(effects)), SessionAbandoned)


def test_a_client_that_waits_for_the_backlog_is_not_idle() -> None:
    session = Driver()
    session(Audio(b"x"))
    assert session.session.next_timer() is None
    assert session(Tick(), at=500.0) == []
    session(Durable(1), at=500.0)
    assert session.session.next_timer() == 530.0


def test_a_client_that_is_paced_is_not_idle() -> None:
    session = Driver(SessionOptions(), idle_timeout_s=3.0)
    effects = session(Audio(SECOND * 30))
    assert effects[-1] == Pace(10.0)
    session(Durable(1))
    assert session.session.next_timer() == 13.0


def test_a_live_session_ends_at_its_longest_and_its_finals_are_told_first() -> None:
    session = Driver(SessionOptions()).stream()
    session(Ping(), at=90.0)
    assert session.session.next_timer() == 100.0
    assert records(session(Tick(), at=100.0)) == [AudioEnded(SESSION, 2)]
    assert session.session.stage is Stage.FINALIZING


def test_a_live_session_that_never_spoke_ends_at_its_longest_too() -> None:
    session = Driver(SessionOptions(), max_session_s=5.0)
    effects = session(Tick(), at=5.0)
    assert isinstance(only(sent(effects)).error, AudioTooLong)
    assert effects[-1] == Release(only(sent(effects)).error)


def test_a_file_may_take_longer_than_its_audio() -> None:
    session = Driver().stream()
    session(Ping(), at=500.0)
    assert session.session.next_timer() == 530.0


def test_a_chunk_missing_for_too_long_breaks_the_connection() -> None:
    session = Driver(SEQUENCED).stream(1)
    session(Audio(b"c", 2), at=5.0)
    assert session.session.next_timer() == 7.0
    effects = session(Tick(), at=7.0)
    error = only(sent(effects)).error
    assert isinstance(error, SequenceGap)
    assert error.message == "sequence 1 is missing"
    assert effects[1:] == [Disconnect(error)]
    assert session.session.stage is Stage.DETACHED
    assert session.session.next_timer() == 22.0


def test_finalization_may_take_as_long_as_it_makes_progress() -> None:
    session = Driver().stream()
    session(End(), at=1.0)
    assert session.session.next_timer() == 61.0
    session(Progress(SESSION, 10), at=50.0)
    session(recognised(1), at=90.0)
    assert session.session.next_timer() == 150.0
    effects = session(Tick(), at=150.0)
    assert isinstance(only(sent(effects)).error, FinalizationTimeout)
    assert isinstance(only(records(effects)), SessionAbandoned)
    assert effects[-1] == Release(only(sent(effects)).error)


def test_a_resume_starts_the_idle_time_anew() -> None:
    session = Driver().stream()
    session(ConnectionLost(), at=20.0)
    session(ConnectionResumed(0, None), at=30.0)
    assert session.session.next_timer() == 60.0


def hears_nothing(session: Driver) -> tuple[object, float]:
    return Ping(), 30.0


def lacks_a_chunk(session: Driver) -> tuple[object, float]:
    session(Audio(b"c", 2))
    return Audio(b"b", 1), 2.0


def lacks_finals(session: Driver) -> tuple[object, float]:
    session(End())
    return Progress(SESSION, 10), 60.0


def lacks_its_client(session: Driver) -> tuple[object, float]:
    session(ConnectionLost())
    return ConnectionResumed(0, None), 15.0


def lacks_finals_and_its_client(session: Driver) -> tuple[object, float]:
    session(End())
    session(ConnectionLost(), at=50.0)
    return ConnectionResumed(0, None), 65.0


WAITS = [hears_nothing, lacks_a_chunk, lacks_finals, lacks_its_client]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("slept_s", [1.0, 1000.0])
def test_a_tick_that_comes_late_waits_for_what_came_while_the_process_stood_still(
    wait: Callable[[Driver], tuple[object, float]], slept_s: float
) -> None:
    session = Driver(SEQUENCED, max_session_s=10_000.0).stream()
    comes, due = wait(session)
    awake_at = due + slept_s
    assert session(Tick(), at=awake_at) == []
    assert session.session.next_timer() == awake_at + AWAKE_S
    session(comes, at=awake_at + 0.1)  # type: ignore[arg-type]
    assert session(Tick(), at=awake_at + AWAKE_S) == []


@pytest.mark.parametrize("wait", [*WAITS, lacks_finals_and_its_client])
@pytest.mark.parametrize("slept_s", [1.0, 1000.0])
@pytest.mark.parametrize(
    "read", [[Tick(), ConnectionLost()], [ConnectionLost(), Tick()], [ConnectionLost()], [Tick()], []]
)
def test_a_client_that_comes_back_as_the_process_wakes_has_that_time_in_whatever_order_it_is_read(
    read: list[Tick | ConnectionLost], slept_s: float, wait: Callable[[Driver], tuple[object, float]]
) -> None:
    session = Driver(SEQUENCED, max_session_s=10_000.0).stream()
    _, due = wait(session)
    awake_at = due + slept_s
    for event in read:
        assert session(event, at=awake_at) == []
    session(ConnectionResumed(0, None), at=awake_at + 0.3)
    next_timer = session.session.next_timer()
    assert next_timer is not None
    assert next_timer >= awake_at + AWAKE_S


@pytest.mark.parametrize("wait", WAITS)
def test_what_does_not_come_after_a_late_tick_either_is_missed_then(
    wait: Callable[[Driver], tuple[object, float]],
) -> None:
    session = Driver(SEQUENCED, max_session_s=10_000.0).stream()
    _, due = wait(session)
    session(Tick(), at=due + 1000)
    assert session(Tick(), at=due + 1000 + AWAKE_S - 0.1) == []
    assert session(Tick(), at=due + 1000 + AWAKE_S) != []


def test_a_process_that_stands_still_again_before_it_has_looked_is_given_time_again() -> None:
    session = Driver().stream()
    session(Tick(), at=100.0)
    assert session(Tick(), at=200.0) == []
    assert session.session.next_timer() == 200.0 + AWAKE_S


def test_a_live_session_ends_at_its_longest_though_it_had_no_connection_then() -> None:
    session = Driver(SessionOptions(), max_session_s=100.0).stream()
    session(Ping(), at=90.0)
    session(ConnectionLost(), at=95.0)
    session(ConnectionResumed(0, None), at=105.0)
    assert session.session.next_timer() == 105.0
    assert records(session(Tick(), at=105.01)) == [AudioEnded(SESSION, 2)]


def test_finals_that_had_not_come_while_there_was_no_connection_are_missed_when_one_is_there() -> None:
    session = Driver(resume_window_s=30.0).stream()
    session(End(), at=0.0)
    session(ConnectionLost(), at=55.0)
    session(ConnectionResumed(0, None), at=70.0)
    assert session.session.next_timer() == 70.0
    assert isinstance(sent(session(Tick(), at=70.01))[0].error, FinalizationTimeout)


def test_time_that_a_late_tick_gave_is_not_cut_short_by_a_connection_that_comes_back() -> None:
    session = Driver(SessionOptions(), max_session_s=100.0).stream()
    session(Ping(), at=90.0)
    session(Tick(), at=200.0)
    session(ConnectionLost(), at=201.0)
    session(ConnectionResumed(0, None), at=202.0)
    assert session.session.next_timer() == 200.0 + AWAKE_S


def test_who_is_always_late_ends_a_session_all_the_same() -> None:
    session = Driver().stream()
    effects: list[Effect] = []
    at, ticks = 0.0, 0
    while not effects and ticks < 100:
        at = (session.session.next_timer() or 0.0) + 2 * LATE_S
        effects = session(Tick(), at=at)
        ticks += 1
    assert isinstance(only(sent(effects)).error, Timeout)
    assert ticks == MAX_PUT_OFF + 1


def test_who_is_always_late_ends_a_session_though_its_client_comes_back_each_time() -> None:
    session = Driver().stream()
    session(End())
    effects: list[Effect] = []
    at, returns = 0.0, 0
    while not effects and returns < 100:
        at = (session.session.next_timer() or 0.0) + 2 * LATE_S
        session(ConnectionLost(), at=at)
        session(ConnectionResumed(0, None), at=at)
        effects = session(Tick(), at=at)
        returns += 1
    assert isinstance(sent(effects)[0].error, FinalizationTimeout)
    assert returns == MAX_PUT_OFF + 1
