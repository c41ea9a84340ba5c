"""A session whose connection is lost, resumed, superseded, told to move or killed."""

import pytest

from streamscribe.core.errors import Draining, ModelUnavailable, SlowReader
from streamscribe.core.messages import (
    Ack,
    Audio,
    Closed,
    End,
    ErrorSent,
    Flush,
    GoAway,
    Heartbeat,
    Ping,
    ResultSent,
    Resumed,
)
from streamscribe.core.records import AudioChunk, AudioEnded, Failed, Finished, Flushed, Progress, SessionAbandoned
from streamscribe.core.session_io import (
    ConnectionLost,
    ConnectionResumed,
    Delivered,
    Disconnect,
    Durable,
    GoingAway,
    Killed,
    Release,
    Send,
    Stopped,
    Tick,
)
from streamscribe.core.session_table import Stage
from tests.unit.session_kit import SECOND, SEQUENCED, SESSION, Driver, only, recognised, records, sent

BACK = ConnectionResumed(last_version=0, last_acked_sequence=None)


def versions(effects: list) -> list[int]:
    return [message.result.version for message in sent(effects) if isinstance(message, ResultSent)]


def test_a_lost_connection_detaches_and_says_nothing() -> None:
    session = Driver().stream()
    assert session(ConnectionLost()) == []
    assert session.session.stage is Stage.DETACHED
    assert session(ConnectionLost(), at=3.0) == []
    assert session.session.next_timer() == 15.0


def test_a_detached_session_sends_nothing_and_hears_nothing() -> None:
    session = Driver(SEQUENCED).stream(durable=False)
    session(ConnectionLost())
    for event in (
        recognised(1),
        Progress(SESSION, 10),
        Flushed(SESSION, "m", 1),
        Durable(1),
        GoingAway(1000, 0),
        Audio(b"x", 1),
        Ping(),
        Flush("m"),
    ):
        assert session(event) == []


def test_a_resume_tells_where_to_go_on_and_what_was_missed() -> None:
    session = Driver(SEQUENCED).stream(3)
    session(recognised(1))
    session(recognised(2, final=True))
    session(ConnectionLost())
    session(recognised(3, segment=1))
    session(recognised(4, segment=1))
    effects = session(ConnectionResumed(last_version=1, last_acked_sequence=0), at=10.0)
    assert sent(effects)[:2] == [Resumed(SESSION, 3, 1), Ack(2)]
    assert versions(effects) == [2, 4]
    assert session.session.stage is Stage.STREAMING
    assert records(session(Audio(b"next", 3))) == [AudioChunk(SESSION, 4, 3, b"next")]


def test_an_unsequenced_session_goes_on_after_the_chunks_that_came() -> None:
    session = Driver().stream(3)
    session(ConnectionLost())
    assert sent(session(BACK)) == [Resumed(SESSION, 3, 0)]


def test_a_chunk_sent_but_not_confirmed_is_not_asked_for_again() -> None:
    session = Driver(SEQUENCED).stream(2, durable=False)
    session(ConnectionLost())
    assert sent(session(BACK)) == [Resumed(SESSION, 2, 0)]
    assert sent(session(Durable(2))) == [Ack(1)]


def test_what_was_held_for_a_missing_chunk_comes_again_after_a_resume() -> None:
    session = Driver(SEQUENCED).stream(1)
    session(Audio(SECOND, 2))
    session(ConnectionLost())
    assert only([m for m in sent(session(BACK)) if isinstance(m, Resumed)]).next_sequence == 1
    assert sent(session(Progress(SESSION, 0))) == [Heartbeat(received_ms=10, processed_ms=0)]
    assert [r.data for s in (1, 2) for r in records(session(Audio(b"%d" % s, s)))] == [b"1", b"2"]


def test_finals_that_came_while_the_client_was_away_are_fetched_and_then_the_session_closes() -> None:
    session = Driver().stream()
    session(End())
    session(ConnectionLost())
    session(recognised(1, final=True))
    assert session(Finished(SESSION, 10)) == []
    assert session.session.stage is Stage.DETACHED
    effects = session(BACK, at=14.0)
    assert versions(effects) == [1]
    assert sent(effects)[-1] == Closed("end", 10)
    assert effects[-2:] == [Disconnect(None), Release()]


def test_last_words_that_a_broken_connection_took_can_be_had_again() -> None:
    session = Driver(lingers=True).stream()
    session(End())
    session(recognised(1, final=True))
    last_words = [Send(Closed("end", 10)), Disconnect(None)]
    assert session(Finished(SESSION, 10)) == last_words
    effects = session(BACK, at=14.0)
    assert versions(effects) == [1]
    assert effects[-2:] == last_words
    assert session(Delivered()) == [Release()]


def test_a_client_that_never_answers_the_close_is_waited_for_as_long_as_one_that_is_lost() -> None:
    session = Driver(lingers=True).stream()
    session(End())
    session(Finished(SESSION, 10), at=1.0)
    assert session(Tick(), at=15.9) == []
    assert session(Tick(), at=16.0) == [Release()]


def test_an_answer_to_the_close_of_a_session_that_goes_on_changes_nothing() -> None:
    session = Driver(lingers=True).stream()
    assert session(Delivered()) == []
    session(ConnectionLost())
    assert session(Delivered()) == []
    assert sent(session(BACK)) != []


def test_a_failure_while_the_client_was_away_is_told_when_it_comes_back() -> None:
    session = Driver().stream()
    session(ConnectionLost())
    error = ModelUnavailable()
    assert session(Failed(SESSION, error)) == []
    effects = session(BACK)
    assert sent(effects)[-1] == ErrorSent(error)
    assert effects[-1] == Release(error)


def test_a_session_that_is_finalizing_goes_on_finalizing_after_a_resume() -> None:
    session = Driver().stream()
    session(End())
    session(ConnectionLost())
    session(BACK)
    assert session.session.stage is Stage.FINALIZING


def test_after_the_window_the_worker_is_told_and_the_session_released() -> None:
    session = Driver().stream()
    session(ConnectionLost(), at=1.0)
    assert session(Tick(), at=15.9) == []
    effects = session(Tick(), at=16.0)
    assert isinstance(only(records(effects)), SessionAbandoned)
    assert sent(effects) == []
    assert effects[-1] == Release()


def test_after_the_window_a_finished_session_is_only_released() -> None:
    session = Driver().stream()
    session(End())
    session(ConnectionLost())
    session(Finished(SESSION, 10))
    assert session(Tick(), at=15.0) == [Release()]


def test_a_resume_that_comes_before_the_session_was_given_up_is_in_time() -> None:
    session = Driver().stream()
    session(ConnectionLost())
    assert isinstance(sent(session(BACK, at=60.0))[0], Resumed)
    assert session.session.next_timer() == 90.0


def test_a_resume_that_misses_more_than_is_kept_is_refused_and_changes_nothing() -> None:
    session = Driver(replay_bytes=4096).stream()
    for version in range(1, 40):
        session(recognised(version, segment=version, final=True, text="long enough " * 10))
    session(ConnectionLost())
    assert not session.session.accepts(BACK)
    assert session(BACK) == []
    assert versions(session(ConnectionResumed(38, None))) == [39]


CLAIMS_TOO_MUCH = [ConnectionResumed(last_version=5, last_acked_sequence=None), ConnectionResumed(0, 1)]


@pytest.mark.parametrize("claim", CLAIMS_TOO_MUCH)
@pytest.mark.parametrize("lost", [True, False])
def test_a_resume_that_claims_what_was_never_told_is_refused_and_changes_nothing(
    claim: ConnectionResumed, lost: bool
) -> None:
    session = Driver(SEQUENCED).stream(1)
    if lost:
        session(ConnectionLost())
    stage = session.session.stage
    assert not session.session.accepts(claim)
    assert session(claim) == []
    assert session.session.stage is stage
    assert session.session.accepts(BACK)
    assert sent(session(BACK)) == [Resumed(SESSION, 1, 0), Ack(0)]


def test_a_refused_resume_gives_a_lost_session_no_more_time() -> None:
    session = Driver(SEQUENCED).stream(1)
    session(ConnectionLost())
    session(CLAIMS_TOO_MUCH[0], at=14.0)
    assert session(Tick(), at=15.0)[-1] == Release()


def test_a_claim_of_acks_before_any_is_refused() -> None:
    session = Driver(SEQUENCED).stream(1, durable=False)
    assert not session.session.accepts(ConnectionResumed(0, 0))


def test_an_unsequenced_client_has_no_acks_to_claim() -> None:
    session = Driver().stream()
    session(ConnectionLost())
    assert sent(session(ConnectionResumed(0, 17))) == [Resumed(SESSION, 1, 0)]


@pytest.mark.parametrize("events", [[], [Audio(b"x")], [Audio(b"x"), End()]])
def test_a_newer_connection_takes_the_session_in_any_stage(events: list) -> None:
    session = Driver()
    for event in events:
        session(event)
    stage = session.session.stage
    assert isinstance(sent(session(BACK))[0], Resumed)
    assert session.session.stage is stage


def test_a_go_away_is_told_and_the_session_goes_on() -> None:
    session = Driver().stream()
    assert sent(session(GoingAway(30_000, 500))) == [GoAway(30_000, 500)]
    assert session.session.stage is Stage.STREAMING


def test_a_killed_session_is_told_why_and_abandoned() -> None:
    session = Driver().stream()
    error = SlowReader()
    effects = session(Killed(error))
    assert effects[1] == Disconnect(error)
    assert only(sent(effects)) == ErrorSent(error)
    assert isinstance(only(records(effects)), SessionAbandoned)
    assert effects[-1] == Release(error)


def test_a_stopped_session_delivers_its_finals_and_then_says_why_it_stops() -> None:
    session = Driver().stream()
    error = Draining()
    assert isinstance(only(records(session(Stopped(error)))), AudioEnded)
    assert session(Audio(b"\0" * 320)) == []
    assert sent(session(recognised(1, final=True)))[0].result.text == "one"
    effects = session(Finished(SESSION, 10))
    assert effects == [Send(ErrorSent(error)), Disconnect(error), Release(error)]


def test_a_session_that_had_ended_before_it_was_stopped_closes_well() -> None:
    session = Driver().stream()
    session(End())
    assert session(Stopped(Draining())) == []
    assert sent(session(Finished(SESSION, 10))) == [Closed("end", 10)]


@pytest.mark.parametrize("lost", [True, False], ids=["without a connection", "before its first audio"])
def test_a_stopped_session_that_owes_nobody_anything_is_over_at_once(lost: bool) -> None:
    session = Driver()
    if lost:
        session.stream()
        session(ConnectionLost())
    error = Draining()
    assert session(Stopped(error))[-1] == Release(error)


def test_a_killed_session_without_a_connection_is_only_abandoned() -> None:
    session = Driver().stream()
    session(ConnectionLost())
    error = Draining()
    effects = session(Killed(error))
    assert isinstance(only(records(effects)), SessionAbandoned)
    assert effects[1:] == [Release(error)]
