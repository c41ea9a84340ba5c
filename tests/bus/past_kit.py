"""Sessions that have spoken and moved on, in a log that counts what is read of it, and who asks for their pasts."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamscribe.bus.kafka.envelope import Headers, event_headers, moved_headers, record_headers
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.reading import Reading
from streamscribe.bus.kafka.topics import Topics
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
        self.speak(*sessions)

    def speak(self, *sessions: str) -> None:
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
