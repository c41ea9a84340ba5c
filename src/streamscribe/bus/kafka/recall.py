"""Reads a session's past out of the log, for a gateway that takes it over: what was published, and what was told."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.envelope import read_event_headers, read_moved, read_record_headers
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BadRequest, BusUnavailable, SessionNotFound, SessionSuperseded, StreamScribeError
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.records import Checkpointed, Failed, Finished, Record, SessionOpened, WorkerEvent
from streamscribe.ports import Place
from streamscribe.settings import KafkaSettings
from streamscribe.wire.bus_records import decode_event, decode_record

PASS_S = 6.0
"""How long one reading of the log may take. Who is not done then may ask again."""

MAX_PASSES = 3
"""That run side by side. Sessions that come while all run are read together by the next."""

_BATCH = 1000
_POLL_S = 0.05


@dataclass(slots=True, eq=False)
class Past:
    """What of a session is wanted, and how far it was read.

    The session's records are those before the one that announces `generation`; `see` gets them, each with the audio
    bytes before it. What was told is in `places`, in turn: in each until the worker said there that the session had
    moved on; `hear` gets it. Both are called in a thread, one at a time.
    """

    session_id: SessionId
    generation: int
    audio_partition: int
    places: tuple[Place, ...]
    see: Callable[[Record, int], None]
    hear: Callable[[WorkerEvent], None]
    done: asyncio.Future[None]
    epoch: LeaseEpoch | None = None
    """The newest worker's that was heard."""
    leg: int = 0
    error: StreamScribeError | None = None
    records_read: bool = False
    _generation: int = 0
    _not_yet: bool = field(default=False)

    @property
    def complete(self) -> bool:
        """Whether everything was read, or cannot be."""
        return self.error is not None or (self.records_read and self.leg >= len(self.places))

    def record(self, message: Message) -> None:
        """A message of the session in its partition of records."""
        if self.records_read:
            return
        headers = read_record_headers(message.headers())
        if headers.generation > self.generation:
            self.error = SessionSuperseded()
        elif headers.generation == self.generation:
            self.records_read = True
        elif headers.generation >= self._generation:
            self._generation = headers.generation
            record = decode_record(message.value() or b"")
            if not (isinstance(record, SessionOpened) and headers.generation):
                self.see(record, headers.audio_at)

    def begin_leg(self) -> None:
        """Reads on at the next place. On a partition that it has left before, what is old comes first."""
        place = self.places[self.leg]
        self._not_yet = any(before.partition == place.partition for before in self.places[: self.leg])

    def result(self, message: Message) -> None:
        """A message of the session in the partition of its present place."""
        place = self.places[self.leg]
        if (message.offset() or 0) < place.offset:
            return
        moved = read_moved(message.headers())
        if moved is not None:
            self._not_yet = self._not_yet and moved < place.generation
            following = self.places[self.leg + 1].generation if self.leg + 1 < len(self.places) else self.generation
            if moved >= following:
                self.leg += 1
            return
        epoch = read_event_headers(message.headers())
        if epoch is None or self._not_yet or (self.epoch is not None and epoch < self.epoch):
            return
        self.epoch = epoch
        event = decode_event(message.value() or b"")
        if not isinstance(event, Checkpointed):
            self.hear(event)
        if isinstance(event, Finished | Failed):  # nobody needs its records any more, nor finds them
            self.leg, self.records_read = len(self.places), True


class Recall:
    """Reads the pasts of sessions, many in one pass; each pass has a consumer and a thread of its own.

    Bounded by time: who is not complete after `PASS_S` gets BusUnavailable. Results that the log has dropped are
    SessionNotFound, a session that moved on meanwhile is SessionSuperseded.
    """

    def __init__(self, kafka: KafkaSettings, max_message_bytes: int) -> None:
        self._kafka = kafka
        self._topics = Topics.of(kafka)
        self._properties = config.consumer(kafka, topics.AUDIO_GROUP, max_message_bytes)
        self._waiting: list[Past] = []
        self._passes: set[asyncio.Task[None]] = set()

    async def read(self, past: Past) -> None:
        """Returns when all of it was read."""
        self._waiting.append(past)
        self._begin()
        await past.done

    def _begin(self) -> None:
        if self._waiting and len(self._passes) < MAX_PASSES:
            wanted, self._waiting = self._waiting, []
            task = asyncio.get_running_loop().create_task(self._pass(wanted))
            self._passes.add(task)
            task.add_done_callback(self._passed)

    def _passed(self, task: "asyncio.Task[None]") -> None:
        self._passes.discard(task)
        self._begin()

    async def _pass(self, wanted: list[Past]) -> None:
        loop = asyncio.get_running_loop()

        def tell(past: Past) -> None:
            loop.call_soon_threadsafe(_settle, past, None)

        error: StreamScribeError = BusUnavailable("the session's past was not read in time", retry_after_s=1.0)
        try:
            await asyncio.to_thread(self._read, wanted, tell)
        except KafkaException as trouble:
            error = BusUnavailable(f"the log cannot be read: {config.explain(trouble)}", retry_after_s=1.0)
        finally:
            for past in wanted:
                _settle(past, None if past.complete else error)

    def _read(self, wanted: list[Past], tell: Callable[[Past], None]) -> None:
        """In a thread: one round for each place that the session with the most of them had."""
        ends_at = time.monotonic() + PASS_S
        consumer: Consumer = config.made(Consumer, self._properties)
        try:
            parts = self._record_parts(consumer, {past.audio_partition for past in wanted})
            for leg in range(max(len(past.places) for past in wanted)):
                reading = [past for past in wanted if past.leg == leg and past.error is None]
                for past in reading:
                    past.begin_leg()
                parts += self._result_parts(reading)
                self._round(consumer, parts, reading, leg, ends_at, tell)
                parts = []
        finally:
            consumer.close()

    def _round(
        self,
        consumer: Consumer,
        parts: list[TopicPartition],
        reading: list[Past],
        leg: int,
        ends_at: float,
        tell: Callable[[Past], None],
    ) -> None:
        left = {past.session_id.encode(): past for past in reading}
        begins = {part.partition: part.offset for part in parts if part.topic == self._topics.results}
        consumer.assign(parts)
        while left and time.monotonic() < ends_at:
            for message in consumer.consume(_BATCH, _POLL_S):
                error = message.error()
                if error is not None:
                    if error.fatal():
                        raise KafkaException(error)
                    continue
                number, key = message.partition() or 0, message.key() or b""
                of_results = message.topic() == self._topics.results
                if of_results and (begin := begins.pop(number, None)) is not None and (message.offset() or 0) > begin:
                    _lose(left, leg, number, message.offset() or 0)
                past = left.get(key if isinstance(key, bytes) else key.encode())
                if past is None:
                    continue
                try:
                    if not of_results:
                        past.record(message)
                    elif past.leg == leg and number == past.places[leg].partition:
                        past.result(message)
                except BadRequest:  # the worker, or the gateway before us, has put it aside too
                    continue
                if past.records_read and past.leg != leg:
                    del left[past.session_id.encode()]
                    if past.complete:
                        tell(past)
            for key in [key for key, past in left.items() if past.error is not None]:
                tell(left.pop(key))

    def _record_parts(self, consumer: Consumer, numbers: set[int]) -> list[TopicPartition]:
        """From where the workers' group would go on: each live session has at least its last record behind that."""
        asked = [TopicPartition(self._topics.audio, number) for number in numbers]
        parts: list[TopicPartition] = consumer.committed(asked, timeout=topics.PATIENCE_S)
        for part in parts:
            part.offset = part.offset if part.offset >= 0 else OFFSET_BEGINNING
        return parts

    def _result_parts(self, reading: list[Past]) -> list[TopicPartition]:
        begins: dict[int, int] = {}
        for past in reading:
            place = past.places[past.leg]
            begins[place.partition] = min(begins.get(place.partition, place.offset), place.offset)
        return [TopicPartition(self._topics.results, number, offset) for number, offset in begins.items()]


def _lose(left: dict[bytes, Past], leg: int, partition: int, begin: int) -> None:
    """The log begins later than it should: what was told before is gone."""
    for past in left.values():
        place = past.places[leg] if past.leg == leg else None
        if place is not None and place.partition == partition and place.offset < begin:
            past.error = SessionNotFound()


def _settle(past: Past, error: StreamScribeError | None) -> None:
    if past.done.done():
        return
    error = past.error or error
    past.done.set_result(None) if error is None else past.done.set_exception(error)
