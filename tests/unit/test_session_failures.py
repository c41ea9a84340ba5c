"""A session that fails or is given up: who is told, when, and what its end says of it."""

from collections.abc import Callable

import pytest

from streamscribe.core.errors import BadRequest, BusUnavailable, Draining, ModelUnavailable, StreamScribeError
from streamscribe.core.messages import End, ErrorSent, Invalid, Resumed
from streamscribe.core.records import Failed, Finished, SessionAbandoned
from streamscribe.core.session_io import (
    Abandoned,
    BrokenDown,
    ConnectionLost,
    Delivered,
    Disconnect,
    Effect,
    Killed,
    Release,
    SessionEvent,
    Tick,
)
from tests.unit.session_kit import SEQUENCED, SESSION, Driver, only, recognised, records, sent
from tests.unit.test_session_resume import BACK, versions


@pytest.mark.parametrize("event", [Abandoned(), Killed(Draining()), BrokenDown(BusUnavailable())])
@pytest.mark.parametrize("lost", [True, False], ids=["before they were told", "after they were told"])
def test_a_session_that_is_done_does_not_fail_any_more(event: SessionEvent, lost: bool) -> None:
    session = Driver(lingers=True).stream()
    session(End())
    if lost:
        session(ConnectionLost())
    session(Finished(SESSION, 10))
    assert session(event) in ([Release()], [])
    assert [*session(Delivered()), *session(Tick(), at=16.0)] in ([Release()], [])


def test_a_client_that_goes_for_good_is_no_failure() -> None:
    session = Driver().stream()
    effects = session(Abandoned())
    assert isinstance(only(records(effects)), SessionAbandoned)
    assert effects[-1] == Release()


def idle(session: Driver) -> list[Effect]:
    return session(Tick(), at=30.0)


def worker_failed(session: Driver) -> list[Effect]:
    return session(Failed(SESSION, ModelUnavailable()))


def broken_frame(session: Driver) -> list[Effect]:
    return session(Invalid(BadRequest("no header"), fatal=True))


def bus_failed(session: Driver) -> list[Effect]:
    return session(BrokenDown(BusUnavailable()))


@pytest.mark.parametrize("fail", [idle, worker_failed, broken_frame, bus_failed])
def test_a_failure_that_a_dead_connection_took_is_told_to_who_comes_back(
    fail: Callable[[Driver], list[Effect]],
) -> None:
    session = Driver(SEQUENCED, lingers=True).stream()
    session(recognised(1, final=True))
    first = fail(session)
    (error,) = (message.error for message in sent(first) if isinstance(message, ErrorSent))
    assert Disconnect(error) in first
    assert not [effect for effect in first if isinstance(effect, Release)]
    abandoned = [record for record in records(first) if isinstance(record, SessionAbandoned)]
    assert len(abandoned) == (fail is not worker_failed)
    assert session(Finished(SESSION, 10)) == []
    assert session.session.mark() is None
    effects = session(BACK)
    assert isinstance(sent(effects)[0], Resumed)
    assert versions(effects) == [1]
    assert sent(effects)[-1] == ErrorSent(error)
    assert records(effects) == []
    assert session.session.broken
    assert session(Delivered()) == [Release(error)]


@pytest.mark.parametrize("failure", [lambda error: Failed(SESSION, error), BrokenDown])
def test_a_failure_that_came_while_the_client_was_away_is_told_to_who_comes_back_and_to_nobody_else(
    failure: Callable[[StreamScribeError], SessionEvent],
) -> None:
    """Law 8: it is known at the end why a session failed, though its client may never hear of it."""
    error = ModelUnavailable()
    for comes_back in (True, False):
        session = Driver(lingers=True).stream()
        session(ConnectionLost())
        assert sent(session(failure(error), at=1.0)) == []
        assert session(BrokenDown(Draining()), at=2.0) == []
        if comes_back:
            effects = session(BACK, at=3.0)
            assert sent(effects)[-1] == ErrorSent(error)
            assert effects[-1] == Disconnect(error)
            assert session(Delivered()) == [Release(error)]
        else:
            assert session(Tick(), at=15.0) == [Release(error)]


def test_a_session_that_failed_is_kept_for_its_client_as_long_as_one_that_is_lost() -> None:
    session = Driver(lingers=True).stream()
    error = ModelUnavailable()
    session(Failed(SESSION, error), at=1.0)
    assert session(Tick(), at=15.9) == []
    assert session(Tick(), at=16.0) == [Release(error)]


def test_a_session_that_is_killed_is_kept_for_nobody() -> None:
    session = Driver(lingers=True).stream()
    error = ModelUnavailable()
    assert session(Killed(error))[-1] == Release(error)


def test_a_session_that_fails_before_its_first_audio_is_kept_for_nobody() -> None:
    error = BusUnavailable()
    assert Driver(lingers=True)(BrokenDown(error))[-1] == Release(error)
