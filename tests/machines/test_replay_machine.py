"""However workers come, settle, set checkpoints and die: the next one gets all that it needs, once and in order."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamscribe.bus.local.replay import MAX_FILE_REPLAY_BYTES, MAX_KEPT_RECORDS, ReplayLog
from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import BadRequest, RateExceeded
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioChunk, AudioEnded, FlushRequested, Record, SessionOpened
from streamscribe.wire.bus_records import decode_record

AUDIO = AudioFormat(Encoding.MULAW, 8000, 1)
BACKLOG_S, REPLAY_S = 1, 5
SESSION = SessionId("a")
OPENED = SessionOpened(SESSION, 0, TenantId("t"), TraceId("x"), SessionOptions(audio=AUDIO))


def size_bytes(record: Record) -> int:
    return len(record.data) if isinstance(record, AudioChunk) else 0


def checkpoint(index: int, skip_bytes: int = 0) -> Checkpoint:
    return Checkpoint(index, skip_bytes, 0, 0, (), (), 0)


class ReplayMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = ReplayLog(OPENED, BACKLOG_S, REPLAY_S)
        self.published: list[Record] = []
        self.got: list[Record] = []
        self.settled = 0

    @rule(seconds=st.sampled_from([0, 0.01, 0.1, 0.5, 1, 3]))
    def a_record_is_published_while_there_is_room(self, seconds):
        size = int(seconds * AUDIO.bytes_per_second)
        index = len(self.published) + 1
        record = AudioChunk(SESSION, index, index, bytes(size)) if size else FlushRequested(SESSION, index, "m")
        if self.log.fits(size):
            self.log.append(record)
            self.published.append(record)

    @rule(most=st.integers(1, 20))
    def the_worker_gets_what_it_may_have(self, most):
        for _ in range(most):
            if (envelope := self.log.next()) is None:
                break
            self.got.append(decode_record(envelope))
        unsettled = [size_bytes(record) for record in self.got[self.settled :]]
        assert sum(unsettled) <= BACKLOG_S * AUDIO.bytes_per_second or sum(size > 0 for size in unsettled) == 1

    @precondition(lambda self: self.settled < len(self.got))
    @rule()
    def the_worker_settles_one(self):
        self.log.settle(size_bytes(self.got[self.settled]))
        self.settled += 1

    @precondition(lambda self: self.got)
    @rule(data=st.data())
    def the_worker_can_go_further(self, data):
        index = data.draw(st.integers(1, len(self.published) + 1))
        reached = self.got[-1].index + 1 if len(self.got) > 1 else self.begins_at
        before = self.begins_at
        if index > reached:
            with pytest.raises(BadRequest):
                self.log.trim(checkpoint(index))
            return
        self.log.trim(checkpoint(index))
        assert self.begins_at == max(before, index)

    @rule()
    def the_worker_dies(self):
        self.log.rewind()
        self.got.clear()
        self.settled = 0

    @property
    def begins_at(self) -> int:
        point = self.log.opened.checkpoint
        return point.index if point else 1

    @invariant()
    def a_worker_has_the_session_from_a_checkpoint_on_in_order_and_without_a_gap(self):
        if self.got:
            opened, *records = self.got
            assert isinstance(opened, SessionOpened)
            first = opened.checkpoint.index if opened.checkpoint else 1
            assert records == self.published[first - 1 : first - 1 + len(records)]

    @invariant()
    def the_record_that_the_worker_is_at_is_the_first_that_it_has_not_settled(self):
        expected = self.got[self.settled].index if 0 < self.settled < len(self.got) else None
        assert self.log.head == expected

    @invariant()
    def the_books_are_right(self):
        self.log.check_integrity()

    def teardown(self):
        """A last worker hears all that is left, whatever happened before."""
        self.the_worker_dies()
        begins_at = self.begins_at
        while (envelope := self.log.next()) is not None:
            self.got.append(decode_record(envelope))
            self.the_worker_settles_one()
        assert self.got[0] == self.log.opened
        assert self.got[1:] == self.published[begins_at - 1 :]


TestReplay = ReplayMachine.TestCase
TestReplay.settings = settings(max_examples=40)


def test_audio_since_the_checkpoint_is_bounded_and_a_checkpoint_makes_room() -> None:
    log = ReplayLog(OPENED, 60, REPLAY_S)
    assert log.next() is not None
    for index in range(1, 6):
        assert log.fits(8000)
        log.append(AudioChunk(SESSION, index, index, bytes(8000)))
        assert log.next() is not None
    assert not log.fits(1)
    assert log.fits(0), "the end of a session needs no room"
    log.trim(checkpoint(3, 0))
    assert log.behind_bytes == 24_000
    assert log.fits(8000)


def test_a_record_far_over_the_bound_is_no_dead_end_while_its_worker_goes_on_inside_it() -> None:
    log = ReplayLog(OPENED, BACKLOG_S, REPLAY_S)
    log.append(AudioChunk(SESSION, 1, 1, bytes(100_000)))
    assert [log.next() is not None for _ in range(3)] == [True, True, False]
    log.settle(0)
    log.settle(100_000)
    assert not log.fits(1)
    log.trim(checkpoint(1, 90_000))
    assert log.fits(1)


def test_an_older_checkpoint_changes_nothing() -> None:
    log = ReplayLog(OPENED, 60, REPLAY_S)
    for index in range(1, 4):
        log.append(AudioChunk(SESSION, index, index, bytes(100)))
        log.next()
    log.next()
    log.trim(checkpoint(3, 50))
    log.trim(checkpoint(3, 10))
    log.trim(checkpoint(2, 99))
    assert log.opened.checkpoint == checkpoint(3, 50)


def test_more_records_than_are_kept_are_refused_by_name() -> None:
    log = ReplayLog(OPENED, 60, REPLAY_S)
    for index in range(1, MAX_KEPT_RECORDS + 1):
        log.append(AudioEnded(SESSION, index))
    with pytest.raises(RateExceeded, match=str(MAX_KEPT_RECORDS)):
        log.append(AudioEnded(SESSION, MAX_KEPT_RECORDS + 1))
    log.check_integrity()


def test_settling_what_was_never_sent_is_the_workers_error() -> None:
    log = ReplayLog(OPENED, 60, REPLAY_S)
    with pytest.raises(BadRequest, match="settled"):
        log.settle(0)
    log.append(AudioChunk(SESSION, 1, 1, bytes(100)))
    log.next()
    with pytest.raises(BadRequest, match="settled"):
        log.settle(100)


@pytest.mark.parametrize(
    ("audio", "live", "most_bytes"),
    [
        (AudioFormat(), True, 40 * 32_000),
        (AudioFormat(), False, 180 * 32_000),
        (AudioFormat(Encoding.PCM_S16, 48_000, 2), False, MAX_FILE_REPLAY_BYTES),
    ],
)
def test_of_a_file_more_is_kept_than_of_a_live_session_within_a_bound_in_bytes(audio, live, most_bytes):
    log = ReplayLog(replace(OPENED, options=SessionOptions(audio=audio, live=live)), 1000, 40)
    second, kept = bytes(audio.bytes_per_second), 0
    while log.fits(len(second)):
        log.append(AudioChunk(SESSION, kept + 1, kept + 1, second))
        kept += 1
    assert most_bytes <= kept * len(second) < most_bytes + len(second)
