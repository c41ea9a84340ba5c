"""A session that another gateway had: what its log tells makes it again, whatever was in it."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.messages import Audio, Closed, End, ErrorSent, Flush, Resumed
from streamscribe.core.records import (
    AudioChunk,
    Failed,
    Finished,
    Flushed,
    Progress,
    Recognised,
    Record,
    SpeechStarted,
    SpeechStopped,
    WorkerEvent,
)
from streamscribe.core.session import Session
from streamscribe.core.session_io import ConnectionLost, ConnectionResumed, Durable
from streamscribe.core.session_past import SessionPast
from streamscribe.core.session_table import Stage
from tests.unit.session_kit import IDENTITY, LIMITS, SEQUENCED, SESSION, Driver, recognised, records, sent

BACK = ConnectionResumed(last_version=0, last_acked_sequence=None)


class Told:
    """A session on its first gateway, and what it leaves in the log."""

    def __init__(self) -> None:
        self.driver = Driver(SEQUENCED)
        self.records: list[tuple[Record, int]] = []
        self.events: list[WorkerEvent] = []
        self._bytes = 0
        self._next = 0

    def say(self, message: object) -> None:
        for record in records(self.driver(message)):
            self.records.append((record, self._bytes))
            self._bytes += len(record.data) if isinstance(record, AudioChunk) else 0
            self.driver(Durable(record.index))

    def speak(self, size_bytes: int) -> None:
        self.say(Audio(b"\0" * size_bytes, self._next))
        self._next += 1

    def hear(self, event: WorkerEvent) -> None:
        self.events.append(event)
        self.driver(event)

    def again(self, begin: int = 0) -> Session:
        """The same session elsewhere, from its records from number `begin` on."""
        past = SessionPast(IDENTITY, LIMITS)
        for record, audio_at in self.records[begin:]:
            past.uplink.take(record, audio_at)
        for event in self.events:
            past.hear(event)
        session = Session(IDENTITY, LIMITS, SEQUENCED, now=0.0, lingers=True, past=past)
        session.check_integrity()
        return session


results = st.builds(
    recognised,
    st.integers(1, 9),
    segment=st.integers(0, 3),
    text=st.sampled_from(["", "a", "ab", "abc"]),
    final=st.booleans(),
)
news = st.one_of(
    results,
    st.builds(Progress, st.just(SESSION), st.integers(0, 999)),
    st.builds(SpeechStarted, st.just(SESSION), st.integers(0, 1), st.integers(0, 999)),
    st.builds(SpeechStopped, st.just(SESSION), st.integers(0, 1), st.integers(0, 999)),
    st.builds(Flushed, st.just(SESSION), st.just("m"), st.integers(0, 9)),
)
steps = st.lists(st.one_of(st.integers(1, 4000), st.just("flush"), news), max_size=40)


def told_by(steps: list[object]) -> Told:
    told = Told()
    told.speak(320)
    for step in steps:
        if isinstance(step, int):
            told.speak(step)
        elif step == "flush":
            told.say(Flush("m"))
        else:
            told.hear(step)
    return told


@given(steps, st.data())
def test_any_session_goes_on_elsewhere_as_it_would_have_here(steps: list[object], data: st.DataObject) -> None:
    told = told_by(steps)
    begin = data.draw(st.integers(0, len(told.records) - 1))
    if not any(isinstance(record, AudioChunk) for record, _ in told.records[begin:]):
        begin = 0
    there = told.again(begin)
    assert there.stage is Stage.DETACHED
    told.driver(ConnectionLost())
    here = told.driver.session
    assert there.handle(BACK, 1.0) == here.handle(BACK, 1.0)
    assert there.received_ms == here.received_ms
    audio = Audio(b"\0" * 640, told._next)
    assert there.handle(audio, 1.0) == here.handle(audio, 1.0)
    late = recognised(99, segment=7, text="late", final=True)
    assert there.handle(late, 1.0) == here.handle(late, 1.0)
    there.check_integrity()


def test_law_1_acks_do_not_go_back_and_audio_that_comes_again_is_a_duplicate() -> None:
    told = told_by([320, 320])
    there = told.again()
    resumed = sent(there.handle(ConnectionResumed(0, 2), 1.0))
    assert resumed[0] == Resumed(SESSION, 3, 0)
    assert records(there.handle(Audio(b"\0" * 320, 2), 1.0)) == []


def test_a_session_that_had_ended_takes_no_more_audio_and_tells_its_end() -> None:
    told = told_by([320])
    told.say(End())
    there = told.again()
    there.handle(BACK, 1.0)
    assert there.stage is Stage.FINALIZING
    assert Closed("end", 20) in sent(there.handle(Finished(SESSION, 20), 2.0))


def test_a_session_that_was_done_is_told_at_once() -> None:
    told = told_by([recognised(1, text="a", final=True)])
    told.say(End())
    told.hear(Finished(SESSION, 10))
    assert sent(told.again().handle(BACK, 1.0))[-1] == Closed("end", 10)


def test_a_session_that_failed_meanwhile_says_so() -> None:
    told = told_by([])
    error = ModelUnavailable()
    told.events.append(Failed(SessionId(SESSION), error))
    assert sent(told.again().handle(BACK, 1.0))[-1] == ErrorSent(error)


def test_versions_that_were_never_told_are_not_resumed() -> None:
    told = told_by([Recognised(SESSION, recognised(1, text="a").result)])
    assert isinstance(sent(told.again().handle(ConnectionResumed(9, None), 1.0))[-1], ErrorSent)
