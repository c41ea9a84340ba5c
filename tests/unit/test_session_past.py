"""A session that another gateway had: what its log tells makes it again, whatever was in it."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import BadRequest, ModelUnavailable
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
from streamscribe.core.session_mark import SessionMark
from streamscribe.core.session_past import SessionPast
from streamscribe.core.session_table import Stage
from streamscribe.wire.session_mark import decode_mark, encode_mark
from tests.unit.session_kit import IDENTITY, LIMITS, SEQUENCED, SESSION, Driver, recognised, records, sent

BACK = ConnectionResumed(last_version=0, last_acked_sequence=None)


class Told:
    """A session on its first gateway, and what it leaves in the log."""

    def __init__(self) -> None:
        self.driver = Driver(SEQUENCED)
        self.records: list[tuple[Record, int, int | None]] = []
        self.marks: list[tuple[SessionMark, int, int]] = []
        self.events: list[WorkerEvent] = []
        self._bytes = 0
        self._next = 0

    def say(self, message: object) -> None:
        for record in records(self.driver(message)):
            before = record.sequence if isinstance(record, AudioChunk) else self._next
            self.records.append((record, self._bytes, before or None))
            self._bytes += len(record.data) if isinstance(record, AudioChunk) else 0
            self.driver(Durable(record.index))
        self._mark()

    def speak(self, size_bytes: int) -> None:
        self.say(Audio(b"\0" * size_bytes, self._next))
        self._next += 1

    def hear(self, event: WorkerEvent) -> None:
        self.events.append(event)
        self.driver(event)
        self._mark()

    def _mark(self) -> None:
        mark = self.driver.session.mark()
        if mark is not None:
            self.marks.append((decode_mark(encode_mark(mark)), len(self.records), len(self.events)))

    def again(self, begin: int = 0, mark: SessionMark | None = None, heard: int = 0) -> Session:
        """The same session elsewhere, from its records from number `begin` on; with a mark, from there."""
        past = SessionPast(IDENTITY, LIMITS, mark)
        for record, audio_at, next_sequence in self.records[begin:]:
            past.uplink.take(record, audio_at, next_sequence)
        for event in self.events[heard:]:
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
    there = told.again(data.draw(st.integers(0, len(told.records) - 1)))
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


@given(steps, st.data())
def test_any_session_goes_on_from_any_mark_as_from_its_opening(steps: list[object], data: st.DataObject) -> None:
    told = told_by(steps)
    mark, begin, heard = data.draw(st.sampled_from(told.marks))
    seen = mark.downlink.results.last_version
    there, whole = told.again(begin, mark, heard), told.again()
    if data.draw(st.booleans()):  # the next gateway of it may be marked too
        assert there.mark() == whole.mark()
    back = ConnectionResumed(last_version=seen, last_acked_sequence=None)
    assert there.handle(back, 1.0) == whole.handle(back, 1.0)
    assert (there.received_ms, there.processed_ms) == (whole.received_ms, whole.processed_ms)
    for message in (Audio(b"\0" * 640, told._next), recognised(99, segment=7, text="late", final=True)):
        assert there.handle(message, 1.0) == whole.handle(message, 1.0)
    for segment in range(4):  # what is told again is told once, wherever
        again = recognised(99, segment=segment, text="again", final=True)
        assert there.handle(again, 1.0) == whole.handle(again, 1.0)
    there.check_integrity()


def test_a_mark_is_small_and_of_one_size_however_old_the_session_is() -> None:
    told = told_by([])
    sizes = []
    for segment in range(1100):
        told.hear(recognised(1, segment=segment, text="some words that were said", final=True))
        mark = told.driver.session.mark()
        assert mark is not None
        sizes.append(len(encode_mark(mark)))
    assert max(sizes) < 60
    assert b"words" not in encode_mark(mark)


@given(st.binary(max_size=80))
def test_bytes_that_are_no_mark_are_refused(data: bytes) -> None:
    with suppress(BadRequest):
        decode_mark(data)


def test_a_session_whose_results_before_the_mark_a_client_lacks_is_not_resumed() -> None:
    told = told_by([recognised(1, text="a", final=True), recognised(1, segment=1, text="b", final=True)])
    there = told.again(mark=told.marks[-1][0], begin=len(told.records), heard=len(told.events))
    assert not there.accepts(ConnectionResumed(1, None))
    assert there.accepts(ConnectionResumed(2, None))


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
    assert not told.again().accepts(ConnectionResumed(9, None))
