"""A session and its worker: results, progress, the end, failures."""

from streamscribe.core.errors import InternalError, ModelUnavailable
from streamscribe.core.messages import (
    Closed,
    End,
    ErrorSent,
    FlushDone,
    Heartbeat,
    ResultSent,
    RuleHitsSent,
    SpeechActivity,
)
from streamscribe.core.records import Failed, Finished, Flushed, Progress, RulesHit, SpeechStarted, SpeechStopped
from streamscribe.core.rules import RuleHit, RuleKind
from streamscribe.core.session_io import ConnectionLost, ConnectionResumed, Disconnect, Release
from tests.unit.session_kit import IDENTITY, SESSION, Driver, only, recognised, records, result, sent


def test_a_result_is_sent_with_the_trace_id() -> None:
    session = Driver().stream()
    assert sent(session(recognised(1))) == [ResultSent(SESSION, IDENTITY.trace_id, result(1))]


def test_law_3_a_result_that_comes_again_is_not_sent_again() -> None:
    session = Driver().stream()
    session(recognised(1, final=True))
    assert session(recognised(1, final=True)) == []
    assert session(recognised(2, final=True)) == []
    assert session(recognised(3)) == []
    assert len(sent(session(recognised(4, final=True, pass_=2)))) == 1


HITS = (RuleHit("promises", RuleKind.PROMISED, "in writing", 100, 900),)


def test_rule_hits_are_told_right_before_their_final_and_with_it_alone() -> None:
    session = Driver().stream()
    assert session(RulesHit(SESSION, 0, 1, HITS)) == []
    hits, final = sent(session(recognised(1, final=True)))
    assert hits == RuleHitsSent(0, 1, HITS)
    assert final.result.version == 1
    assert session(RulesHit(SESSION, 0, 1, HITS)) == []
    assert session(recognised(1, final=True)) == []
    assert len(sent(session(recognised(2, segment=1, final=True)))) == 1


def test_rule_hits_that_a_client_missed_come_again_with_their_final() -> None:
    session = Driver().stream()
    session(ConnectionLost())
    session(RulesHit(SESSION, 0, 0, HITS))
    session(recognised(1, final=True))
    told = sent(session(ConnectionResumed(last_version=0, last_acked_sequence=None)))
    assert told[-2:] == [RuleHitsSent(0, 0, HITS), ResultSent(SESSION, IDENTITY.trace_id, result(1, final=True))]


def test_speech_and_flush_events_are_told() -> None:
    session = Driver().stream()
    assert sent(session(SpeechStarted(SESSION, 1, 250))) == [SpeechActivity(started=True, channel=1, at_ms=250)]
    assert sent(session(SpeechStopped(SESSION, 1, 900))) == [SpeechActivity(started=False, channel=1, at_ms=900)]
    assert sent(session(Flushed(SESSION, "m", 1))) == [FlushDone("m")]


def test_speech_and_flush_events_that_another_worker_tells_again_are_not_told_twice() -> None:
    session = Driver().stream()
    voice = [SpeechStarted(SESSION, 0, 250), SpeechStopped(SESSION, 0, 900), SpeechStarted(SESSION, 0, 900)]
    flushes = [Flushed(SESSION, "m", 3), Flushed(SESSION, "m", 5)]
    told = [message for event in (*voice, *flushes) for message in sent(session(event))]
    assert len(told) == 5
    assert [message for event in (*voice, *flushes) for message in sent(session(event))] == []
    assert sent(session(SpeechStopped(SESSION, 0, 1500))) == [SpeechActivity(started=False, channel=0, at_ms=1500)]
    assert sent(session(Flushed(SESSION, "m", 6))) == [FlushDone("m")]


def test_progress_never_goes_back() -> None:
    session = Driver().stream(10)
    session(Progress(SESSION, 80))
    assert sent(session(Progress(SESSION, 40))) == [Heartbeat(received_ms=100, processed_ms=80)]


def test_progress_becomes_a_heartbeat() -> None:
    session = Driver().stream(10)
    assert sent(session(Progress(SESSION, 40))) == [Heartbeat(received_ms=100, processed_ms=40)]


def test_the_last_final_closes_the_session() -> None:
    session = Driver().stream()
    session(End())
    assert len(sent(session(recognised(1, final=True)))) == 1
    closed, disconnect, release = session(Finished(SESSION, 10))
    assert only(sent([closed])) == Closed("end", 10)
    assert disconnect == Disconnect(None)
    assert release == Release()


def test_law_8_a_failure_is_told_and_the_worker_is_not_asked_to_forget_again() -> None:
    session = Driver().stream()
    error = ModelUnavailable()
    effects = session(Failed(SESSION, error))
    assert only(sent(effects)) == ErrorSent(error)
    assert records(effects) == []
    assert effects[1:] == [Disconnect(error), Release(error)]


def test_a_worker_that_finishes_before_the_end_has_failed() -> None:
    session = Driver().stream()
    effects = session(Finished(SESSION, 10))
    error = only(sent(effects)).error
    assert isinstance(error, InternalError)
    assert effects[-1] == Release(error)
