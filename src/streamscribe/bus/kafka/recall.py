"""Reads sessions' pasts out of the log, for a gateway that takes them over: what was published, and what was told."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.gaps import Gaps, Where
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.reader import LEAVE_WITHIN_S
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BadRequest, BusUnavailable, SessionNotFound, StreamScribeError
from streamscribe.settings import KafkaSettings

PATIENCE_S = 6.0
"""How long the reading of one past may take. Who is not done then may ask again."""

MAX_PASTS = 4096
"""That are read at one time."""

_BATCH = 1000
_POLL_S = 0.05
_LINGER_S = 2.0


class Recall:
    """Reads the pasts of sessions side by side, with one consumer and one thread, which end when nobody asks.

    Bounded by time, each for itself: who is not complete after `PATIENCE_S` gets BusUnavailable, and holds up nobody.
    Results that the log has dropped are SessionNotFound, a session that moved on meanwhile is SessionSuperseded.
    """

    def __init__(self, kafka: KafkaSettings, max_message_bytes: int) -> None:
        self._topics = Topics.of(kafka)
        self._properties = config.consumer(kafka, topics.AUDIO_GROUP, max_message_bytes)
        self._lock = threading.Lock()
        self._asked: list[Past] = []
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._stopping = False

    async def read(self, past: Past) -> None:
        """Returns when all of it was read. Of one session at a time: the former asker of it is forgotten."""
        if self._waiting >= MAX_PASTS or self._stopping:
            raise BusUnavailable("too many sessions come at once", retry_after_s=1.0)
        self._waiting += 1
        try:
            with self._lock:
                self._asked.append(past)
                if self._thread is None:
                    run = (asyncio.get_running_loop(),)
                    self._thread = threading.Thread(target=self._run, args=run, name="kafka-recall", daemon=True)
                    self._thread.start()
            await past.done
        finally:
            self._waiting -= 1
            past.done.cancel()  # so that the thread sees that nobody waits any more

    async def close(self) -> None:
        """Ends the thread; who waits gets BusUnavailable. Returns also where the brokers let the consumer not go."""
        self._stopping = True
        thread = self._thread
        if thread is not None:
            await asyncio.to_thread(thread.join, LEAVE_WITHIN_S)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread."""

        def tell(past: Past, otherwise: StreamScribeError | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(past.settle, otherwise)

        error = BusUnavailable("the session's past was not read in time", retry_after_s=1.0)
        reading: Reading | None = None
        taken: list[Past] = []
        idle_since = time.monotonic()
        try:
            consumer: Consumer = config.made(Consumer, self._properties)
            reading = Reading(consumer, self._topics)
            while (asked := self._next(reading, idle_since)) is not None:
                taken = asked
                if asked or reading.busy:
                    idle_since = time.monotonic()
                for past in reading.step(asked):
                    tell(past, error)
        except KafkaException as trouble:
            error = BusUnavailable("the session's past cannot be read", retry_after_s=1.0)
            error.__cause__ = trouble
        finally:
            with self._lock:
                left, self._asked, self._thread = self._asked, [], None
            for past in [*taken, *left, *(reading.pasts() if reading is not None else ())]:
                tell(past, error)
            if reading is not None:
                reading.close()

    def _next(self, reading: "Reading", idle_since: float) -> list[Past] | None:
        """Who has asked since; None: it is time to end. What is asked from then on finds another thread."""
        with self._lock:
            asked, self._asked = self._asked, []
            if self._stopping or (not asked and not reading.busy and time.monotonic() > idle_since + _LINGER_S):
                self._asked, self._thread = asked, None if not asked else self._thread
                return None
            return asked


@dataclass(slots=True, eq=False)
class _Reader:
    """One past, and from which offset of each partition it is read."""

    past: Past
    ends_at: float
    at: dict[Where, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Track:
    """Where the consumer is in a partition; `sought`: nothing has come since it was to be put there."""

    offset: int
    sought: bool = True


class Reading:
    """The consumer at many partitions. It goes back where a newcomer needs that; the others pass over what they had.

    Partitions come and go one by one: to give the consumer all of them anew, for each newcomer and each leg, threw away
    what it had fetched of the others, and where fifty sessions came within a second nobody's past was read in time.
    """

    def __init__(self, consumer: Consumer, names: Topics, clock: Callable[[], float] = time.monotonic) -> None:
        self._consumer = consumer
        self._clock = clock
        self._topics = names
        self._readers: dict[bytes, _Reader] = {}
        self._tracks: dict[Where, _Track] = {}
        self._placed: set[Where] = set()
        self._to_place: set[Where] = set()
        self._gaps = Gaps(clock)

    @property
    def busy(self) -> bool:
        """Whether anything is read for anybody."""
        return bool(self._readers)

    def pasts(self) -> list[Past]:
        """Those that are not complete."""
        return [reader.past for reader in self._readers.values()]

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def step(self, asked: list[Past]) -> list[Past]:
        """Takes more in, reads on for a moment, and gives those that are complete or late."""
        if asked:
            self._take_in(asked)
        if self._to_place or self._gaps.behind():
            self._place()
        turned = [reader for message in self._consumer.consume(_BATCH, _POLL_S) if (reader := self._hear(message))]
        for reader in turned:
            self._begin_leg(reader)
        return self._ended()

    def _place(self) -> None:
        """Puts the consumer where the pasts are read on; what else it reads it goes on with."""
        wanted = {place for reader in self._readers.values() for place in reader.at}
        for place in set(self._tracks) - wanted:
            self._gaps.end(place)
            del self._tracks[place]
        for place in self._gaps.behind():
            self._gaps.gone_back(place)
            self._tracks[place].sought = True
            self._to_place.add(place)
        left = (self._placed - wanted) | (self._placed & self._to_place)
        come = self._to_place & wanted
        self._consumer.incremental_unassign([TopicPartition(*place) for place in left])
        self._consumer.incremental_assign([TopicPartition(*place, self._tracks[place].offset) for place in come])
        self._placed = (self._placed - left) | come
        self._to_place = set()

    def _take_in(self, asked: list[Past]) -> None:
        """Records are read from where the workers' group would go on, for each live session has its last one behind
        that; or from the mark of its place, where that is later."""
        numbers = {past.audio_partition for past in asked}
        parts = [TopicPartition(self._topics.audio, number) for number in numbers]
        committed: dict[int, int] = {
            part.partition: max(0, part.offset) for part in self._consumer.committed(parts, timeout=topics.PATIENCE_S)
        }
        ends_at = self._clock() + PATIENCE_S
        for past in asked:
            reader = self._readers[past.session_id.encode()] = _Reader(past, ends_at)
            audio, number = self._topics.audio, past.audio_partition
            marked = past.places[0].audio_offset if past.places else 0
            self._follow(reader, (audio, number), max(committed[number], marked))
            self._begin_leg(reader)

    def _begin_leg(self, reader: _Reader) -> None:
        reader.past.begin_leg()
        reader.at = {where: at for where, at in reader.at.items() if where[0] != self._topics.results}
        if (place := reader.past.place) is not None:
            self._follow(reader, (self._topics.results, place.partition), place.offset)

    def _follow(self, reader: _Reader, place: Where, offset: int) -> None:
        """Reads a partition for the past too, from an offset on."""
        reader.at[place] = offset
        track = self._tracks.get(place)
        if track is not None and track.offset <= offset:
            return
        if track is not None:
            for other in self._readers.values():
                if other is not reader and place in other.at:
                    other.at[place] = max(other.at[place], track.offset)
        self._tracks[place] = _Track(offset)
        self._gaps.begin(place, offset)
        self._to_place.add(place)

    def _hear(self, message: Message) -> _Reader | None:
        """A message; gives the one whose next place is to be read from now on."""
        error = message.error()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
            return None
        place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        track = self._tracks.get(place)
        if track is None or not self._gaps.takes(place, offset):
            return None
        of_results = place[0] == self._topics.results
        if track.sought and of_results and offset > track.offset:
            self._lose(place, offset)
        track.sought, track.offset = False, offset + 1
        key = message.key() or b""
        reader = self._readers.get(key if isinstance(key, bytes) else key.encode())
        if reader is None or offset < reader.at.get(place, inf):
            return None
        reader.at[place] = offset + 1
        past, leg = reader.past, reader.past.leg
        with suppress(BadRequest):  # the worker, or the gateway before us, has put it aside too
            past.result(message) if of_results else past.record(message)
        if past.leg == leg:
            return None
        del reader.at[place]  # what else came of this partition belongs to no leg, or to a later one
        return reader

    def _lose(self, place: Where, begin: int) -> None:
        """The log begins later than it should: what was told before is gone."""
        for reader in self._readers.values():
            if reader.at.get(place, begin) < begin:
                reader.past.error = SessionNotFound()

    def _ended(self) -> list[Past]:
        now = self._clock()
        ended = [
            key
            for key, reader in self._readers.items()
            if reader.past.complete or now > reader.ends_at or reader.past.done.cancelled()
        ]
        return [self._readers.pop(key).past for key in ended]
