"""The reading of many sessions' pasts at once: what is asked of the log, and what each hears."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamscribe.bus.kafka import config, recall
from streamscribe.bus.kafka.envelope import Headers, event_headers, moved_headers, record_headers
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.recall import Reading, Recall
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import InternalError, SessionNotFound
from streamscribe.core.ids import LeaseEpoch, SessionId, TenantId, TraceId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioChunk, Emitted, Record, SessionOpened, SpeechStopped
from streamscribe.core.rules import TextPolicy
from streamscribe.ports import Place
from streamscribe.settings import KafkaSettings
from streamscribe.wire.bus_records import encode_event, encode_record
from tests.sim.broker import Message

TOPICS = Topics.of(KafkaSettings())
AUDIO, RESULTS = (TOPICS.audio, 0), (TOPICS.results, 0)
OTHER_RESULTS = (TOPICS.results, 1)
CHUNKS = 20


class CountingLog:
    """A consumer over a log in memory: a few records of each partition at a time, and what was read and moved."""

    def __init__(self) -> None:
        self.log: defaultdict[tuple[str, int], list[Message]] = defaultdict(list)
        self.begins: dict[tuple[str, int], int] = {}
        self.at: dict[tuple[str, int], int] = {}
        self.read = 0
        self.moves = 0
        self.committed_asked = 0
        self.refusal: KafkaError | KafkaException | None = None

    def append(self, where: tuple[str, int], session: str, value: bytes, headers: Headers) -> None:
        its_headers = cast("list[tuple[str, Any]]", list(headers))
        message = Message((*where, len(self.log[where])), session.encode(), value, its_headers, 0.0)
        self.log[where].append(message)

    def committed(self, parts: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.committed_asked += 1
        if isinstance(self.refusal, KafkaException):
            raise self.refusal
        if self.refusal is not None:
            return [cast("TopicPartition", SimpleNamespace(partition=0, offset=-1001, error=self.refusal))]
        return [TopicPartition(part.topic, part.partition, 0) for part in parts]

    def incremental_assign(self, parts: list[TopicPartition]) -> None:
        self.moves += 1
        for part in parts:
            assert (part.topic, part.partition) not in self.at
            self.at[part.topic, part.partition] = part.offset

    def incremental_unassign(self, parts: list[TopicPartition]) -> None:
        for part in parts:
            del self.at[part.topic, part.partition]

    def consume(self, most: int, timeout: float) -> list[Message]:
        found: list[Message] = []
        for where, at in self.at.items():
            at = max(at, self.begins.get(where, 0))
            found += self.log[where][at : at + 7]
            self.at[where] = min(at + 7, len(self.log[where]))
        self.read += len(found)
        return found

    def close(self) -> None:
        self.at.clear()


class Asker:
    """A past, and what of it was seen and heard."""

    def __init__(self, session: str, *places: Place, generation: int = 1) -> None:
        self.records: list[Record] = []
        self.events: list[Emitted] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        hear = cast("Callable[..., None]", self.events.append)
        self.past = Past(SessionId(session), generation, 0, 16, places, self._see, hear, self.done)

    def _see(self, record: Record, audio_at: int, next_sequence: int | None) -> None:
        self.records.append(record)


class Spoken:
    """Sessions that have spoken and moved on: all in one partition of records, and told in one of results."""

    def __init__(self, *sessions: str) -> None:
        self.consumer = CountingLog()
        for name in sessions:
            opened = SessionOpened(SessionId(name), 0, TenantId("t"), TraceId("t"), SessionOptions(), TextPolicy())
            self._record(opened)
        for index in range(CHUNKS):
            for name in sessions:
                self._record(AudioChunk(SessionId(name), index + 1, index, b"\0" * 100))
                self.event(RESULTS, SpeechStopped(SessionId(name), 0, index))
        for name in sessions:
            self.move(name, RESULTS, 1)

    def move(self, name: str, left: tuple[str, int], generation: int) -> None:
        opened = SessionOpened(SessionId(name), 99, TenantId("t"), TraceId("t"), SessionOptions(), TextPolicy())
        self._record(opened, generation=generation)
        self.consumer.append(left, name, b"", moved_headers(LeaseEpoch(1), generation, ""))

    def go_on(self, name: str) -> None:
        """Others' live traffic."""
        self._record(AudioChunk(SessionId(name), 100, 100, b"\0"), generation=1)

    def reading(self) -> Reading:
        return Reading(cast("Consumer", self.consumer), TOPICS, lambda: 0.0)

    def _record(self, record: Record, generation: int = 0) -> None:
        headers = record_headers(0, 0, "", generation)
        self.consumer.append(AUDIO, record.session_id, encode_record(record), headers)

    def event(self, where: tuple[str, int], event: Emitted) -> None:
        self.consumer.append(where, event.session_id, encode_event(event), event_headers(LeaseEpoch(1), ""))

    @property
    def size(self) -> int:
        return sum(map(len, self.consumer.log.values()))


FIRST = Place(0, 0, 0)


def read_out(reading: Reading, *asked: Asker) -> None:
    """Until each has ended."""
    left = [asker.past for asker in asked]
    newcomers = list(left)
    while left:
        for past in reading.step(newcomers):
            past.settle()
            left.remove(past)
        newcomers = []


def check_whole(asker: Asker) -> None:
    assert asker.done.result() is None
    assert len(asker.records) == 1 + CHUNKS
    assert len(asker.events) == CHUNKS


async def test_many_that_come_one_after_the_other_read_the_log_once() -> None:
    names = [f"s{number}" for number in range(30)]
    spoken = Spoken(*names)
    reading = spoken.reading()
    askers = [Asker(name, FIRST) for name in names]
    for asker in askers:
        reading.step([asker.past])
    while reading.busy:
        reading.step([])
    for asker in askers:
        asker.past.settle()
        check_whole(asker)
    assert spoken.consumer.read == spoken.size
    assert spoken.consumer.committed_asked == 1


async def test_who_comes_when_all_was_read_is_given_what_is_kept() -> None:
    spoken = Spoken("first", "second")
    reading = spoken.reading()
    read_out(reading, Asker("first", FIRST))
    before = spoken.consumer.read
    second = Asker("second", FIRST)
    read_out(reading, second)
    check_whole(second)
    assert spoken.consumer.read - before <= 2 * CHUNKS


async def test_records_are_left_as_soon_as_nobody_waits_for_them() -> None:
    spoken = Spoken("ours", "other")
    reading = spoken.reading()
    moved = spoken.consumer.log[RESULTS][-2]
    assert moved.key() == b"ours"
    rest = spoken.consumer.log[RESULTS][-2:]
    del spoken.consumer.log[RESULTS][-2:]
    ours = Asker("ours", FIRST)
    asked = [ours.past]
    for _ in range(30):
        assert reading.step(asked) == []
        asked = []
    read = spoken.consumer.read
    for _ in range(50):
        spoken.go_on("other")
        assert reading.step([]) == []
    assert spoken.consumer.read == read
    spoken.consumer.log[RESULTS] += rest
    while reading.busy:
        reading.step([])
    ours.past.settle()
    check_whole(ours)


async def test_beyond_what_may_be_kept_the_log_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "MAX_KEPT_BYTES", 1000)
    spoken = Spoken("first", "second")
    reading = spoken.reading()
    first, second = Asker("first", FIRST), Asker("second", FIRST)
    read_out(reading, first)
    read_out(reading, second)
    check_whole(first)
    check_whole(second)
    assert spoken.consumer.read > spoken.size


async def test_who_comes_from_before_what_is_kept_has_the_consumer_go_back_and_nobody_hears_twice() -> None:
    spoken = Spoken("early", "late")
    reading = spoken.reading()
    late = Asker("late", Place(0, 2 * CHUNKS - 4, 0))
    assert reading.step([late.past]) == []
    early = Asker("early", FIRST)
    ended = reading.step([early.past])
    while reading.busy:
        ended += reading.step([])
    for past in ended:
        past.settle()
    check_whole(early)
    assert [event.at_ms for event in late.events if isinstance(event, SpeechStopped)] == [CHUNKS - 2, CHUNKS - 1]


async def test_a_session_that_has_moved_twice_is_read_at_both_places_from_what_is_kept() -> None:
    spoken = Spoken("ours", "other")
    spoken.event(OTHER_RESULTS, SpeechStopped(SessionId("ours"), 0, 77))
    spoken.move("ours", OTHER_RESULTS, 2)
    reading = spoken.reading()
    for _ in range(2):  # the second time all of it is kept
        ours = Asker("ours", FIRST, Place(1, 0, 1), generation=2)
        read_out(reading, ours)
        assert ours.done.result() is None
        assert [event.at_ms for event in ours.events if isinstance(event, SpeechStopped)] == [*range(CHUNKS), 77]


async def test_of_results_that_the_log_has_dropped_a_later_comer_is_told_too() -> None:
    spoken = Spoken("first", "second")
    spoken.consumer.begins[RESULTS] = 5
    now = 0.0
    reading = Reading(cast("Consumer", spoken.consumer), TOPICS, lambda: now)
    for name in ("first", "second"):
        asker = Asker(name, FIRST)
        asked = [asker.past]
        while not asker.done.done():
            for past in reading.step(asked):
                past.settle()
            asked, now = [], now + 0.5
        assert isinstance(asker.done.exception(), SessionNotFound)


async def test_a_past_at_which_something_fails_fails_alone() -> None:
    spoken = Spoken("sick", "well")
    reading = spoken.reading()
    sick, well = Asker("sick", FIRST), Asker("well", FIRST)

    def fail(event: Emitted) -> None:
        raise ZeroDivisionError

    sick.past.hear = cast("Callable[..., None]", fail)
    read_out(reading, sick, well)
    check_whole(well)
    error = sick.done.exception()
    assert isinstance(error, InternalError)
    assert isinstance(error.__cause__, ZeroDivisionError)


REFUSED = KafkaError(KafkaError.NOT_COORDINATOR)


@pytest.mark.parametrize("refusal", [REFUSED, KafkaException(REFUSED)])
async def test_who_comes_while_the_group_cannot_be_asked_waits_alone_and_is_not_read_from_the_beginning(
    refusal: KafkaError | KafkaException,
) -> None:
    spoken = Spoken("before", "ours", "late")
    now = 0.0
    reading = Reading(cast("Consumer", spoken.consumer), TOPICS, lambda: now)
    before, ours, late = (Asker(name, FIRST) for name in ("before", "ours", "late"))
    assert reading.step([before.past]) == []
    spoken.consumer.refusal, now = refusal, 3.0
    ended = reading.step([ours.past])
    for _ in range(50):
        ended += reading.step([])
    assert ended == [before.past]
    assert (ours.records, ours.events) == ([], [])
    assert spoken.consumer.committed_asked == 2, "who is read is held up again only after a while"
    now = 5.0
    assert reading.step([late.past]) == []
    now = 9.5
    assert reading.step([]) == [ours.past]
    assert not ours.past.complete, "his time is over"
    spoken.consumer.refusal = None
    now = 10.5
    while reading.busy:
        ended += reading.step([])
    for past in ended:
        past.settle()
    check_whole(before)
    check_whole(late)


async def test_what_belongs_to_no_session_takes_no_room_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "MAX_KEPT_BYTES", 200_000)
    spoken = Spoken("first", "second")
    rest = spoken.consumer.log[RESULTS]
    settled = [Message((*RESULTS, at), None, b"\0" * 10_000, [], 0.0) for at in range(100)]
    later = [
        Message((*RESULTS, 100 + at), one.key_bytes, one.value_bytes, one.its_headers, 0.0)
        for at, one in enumerate(rest)
    ]
    spoken.consumer.log[RESULTS] = settled + later
    reading = spoken.reading()
    first, second = Asker("first", FIRST), Asker("second", FIRST)
    read_out(reading, first)
    read_out(reading, second)
    check_whole(second)
    assert spoken.consumer.read == spoken.size


async def test_who_asks_while_a_thread_ends_is_read_by_the_next_one_which_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_ends, first_may_end = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    class Ending(Recall):
        """The first thread stands still between its last look at who asks and its end; the next one outlives it."""

        def _next(self, reading: Reading, idle_since: float) -> list[Past] | None:
            here = threading.current_thread()
            threads.extend([] if here in threads else [here])
            if here is not threads[0]:
                threads[0].join(5)
                return super()._next(reading, idle_since)
            asked = super()._next(reading, idle_since)
            if asked is None:
                first_ends.set()
                first_may_end.wait(5)
            return asked

    spoken = Spoken("first", "second")
    monkeypatch.setattr(config, "made", lambda *_: spoken.consumer)
    monkeypatch.setattr(recall, "_LINGER_S", 0.0)
    reading = Ending(KafkaSettings(brokers="one:9092"), 2**20)
    first, second = Asker("first", FIRST), Asker("second", FIRST)
    await asyncio.wait_for(reading.read(first.past), 5)
    assert await asyncio.to_thread(first_ends.wait, 5)
    waiting = asyncio.ensure_future(reading.read(second.past))
    await asyncio.sleep(0)
    first_may_end.set()
    await asyncio.wait_for(waiting, 5)
    check_whole(first)
    check_whole(second)
    await reading.close()
    assert not any(thread.is_alive() for thread in threads)
