"""The producer of one process: librdkafka's, with a thread that brings what became of each record back to the loop."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streamscribe.bus.kafka import config
from streamscribe.bus.kafka.envelope import Headers
from streamscribe.core.errors import BusUnavailable, StreamScribeError

Done = Callable[[StreamScribeError | None], None]
"""Called on the loop: the record is on all replicas, or will not be."""

MAX_UNSENT_BYTES = 2**26
"""Bytes given to the producer and not delivered, beyond which there is no `room`."""

_BROKEN = {
    KafkaError._FATAL,  # so it says to who sends more
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
"""After these a producer may send nothing ever again: brokers lost track of it, or it of them, after a long silence."""

_POLL_S = 0.1
_FLUSH_S = 5.0
_CHECK_S = 2.0


class Sender:
    """Sends records; those of one partition arrive in the order they were sent, each once.

    For one event loop, not thread-safe. `on_room` is called when there is room again. A producer that can send no more
    is replaced by a new one; what the old one had not delivered fails, so that nothing overtakes it.
    """

    def __init__(self, properties: dict[str, Any]) -> None:
        """Raises SettingsError for properties that librdkafka refuses."""
        self.on_room: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._properties = properties
        self._producer: Producer = config.made(Producer, properties)
        self._retired: Producer | None = None
        self.unsent_bytes = 0
        """Given to the producer and not delivered."""
        self.delivered_to: dict[tuple[str, int], int] = {}
        """Topic and partition: the offset behind the last record that was delivered there."""
        self._full = False
        self._reports: deque[tuple[Producer, Done, int, KafkaError | None, Message]] = (
            deque()
        )  # at most as many as are in flight
        self._waking = False
        self._stopping = False
        self._thread = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._thread.start()

    @property
    def room(self) -> bool:
        """Whether more should be sent now: the brokers keep up."""
        return not self._full

    def send(
        self, topic: str, value: bytes, headers: Headers, done: Done, *, key: str | None = None, partition: int = -1
    ) -> None:
        """Sends one record; `done` is called later, once. Without a `partition` the key decides.

        Raises BusUnavailable where too much waits already, and what `done` would have been told if it is known now, but
        for a partition that there is not.
        """
        size = len(value)
        try:
            self._producer.produce(
                topic,
                value,
                key,
                headers=headers,
                on_delivery=partial(self._report, self._producer, done, size),
                partition=partition,
            )
        except BufferError:
            raise BusUnavailable("the service has too much to store at once") from None
        except KafkaException as error:
            self._replace_after(error.args[0], self._producer)
            refused = config.typed(error.args[0])
            if not isinstance(refused, config.NoSuchPartition):
                raise refused  # noqa: B904 - has its cause
            self._loop.call_soon(done, refused)
            return
        self.unsent_bytes += size
        self._full = self._full or self.unsent_bytes >= MAX_UNSENT_BYTES

    async def put(
        self, topic: str, value: bytes, headers: Headers, *, key: str | None = None, partition: int = -1
    ) -> None:
        """Sends one record, and returns when it is on all replicas. Raises what `done` would be told."""
        delivered: asyncio.Future[None] = self._loop.create_future()

        def done(error: StreamScribeError | None) -> None:
            if not delivered.done():
                delivered.set_result(None) if error is None else delivered.set_exception(error)

        self.send(topic, value, headers, done, key=key, partition=partition)
        await delivered

    async def check(self, topics: Collection[str]) -> None:
        """Returns when a broker answers for these topics. Raises BusUnavailable; its `field` names those that there are
        not, or of which nobody may read."""
        lacking = await asyncio.to_thread(self._lacking, topics)
        if lacking:
            why = "; ".join(f"{name}: {config.explain(error)}" for name, error in lacking.items())
            raise BusUnavailable(f"the brokers have no {why}", field=f"topic {', '.join(lacking)}")

    def _lacking(self, topics: Collection[str]) -> dict[str, KafkaError]:
        """One after the other: asked of all at once, a large cluster would tell of everybody's topics."""
        try:
            told = {name: self._producer.list_topics(name, _CHECK_S).topics[name].error for name in topics}
        except KafkaException as error:
            raise BusUnavailable(f"no broker answers: {config.explain(error)}") from None
        return {name: error for name, error in told.items() if error is not None}

    async def close(self) -> None:
        """Waits a few seconds for what was sent; what no broker took until then fails."""
        await asyncio.to_thread(self._producer.flush, _FLUSH_S)
        await asyncio.to_thread(self._producer.purge)
        await asyncio.to_thread(self._producer.flush, _FLUSH_S)
        self._stopping = True
        await asyncio.to_thread(self._thread.join)
        self._drain()

    def _poll(self) -> None:
        while not self._stopping:
            self._producer.poll(_POLL_S)
            if self._retired is not None:
                self._retired.purge()
                self._retired.flush(_FLUSH_S)
                self._retired = None

    def _report(self, sent_by: Producer, done: Done, size: int, error: KafkaError | None, message: Message) -> None:
        """In the thread. One call wakes the loop for all reports that are there when it comes."""
        self._reports.append((sent_by, done, size, error, message))
        if not self._waking:
            self._waking = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._waking = False
        while self._reports:
            sent_by, done, size, error, message = self._reports.popleft()
            self.unsent_bytes -= size
            if error is None:
                self.delivered_to[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1
            if error is not None:
                self._replace_after(error, sent_by)
            try:
                done(None if error is None else config.typed(error))
            except Exception as defect:  # noqa: BLE001 - the others are to be told too
                self._loop.call_exception_handler({"message": "a record's report met a defect", "exception": defect})
        if self._full and self.unsent_bytes <= MAX_UNSENT_BYTES // 2:
            self._full = False
            self.on_room()

    def _replace_after(self, error: KafkaError, sent_by: Producer) -> None:
        if sent_by is not self._producer or not (error.fatal() or error.code() in _BROKEN):
            return
        if self._retired is None and not self._stopping:
            self._retired, self._producer = self._producer, config.made(Producer, self._properties)
