"""A consumer's thread: it polls, and hands batches over to the loop, of which few are under way at a time."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamscribe.bus.kafka import config
from streamscribe.bus.kafka.gaps import Gaps
from streamscribe.core.errors import BusUnavailable, InternalError, StreamScribeError

_log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(__name__)

MAX_BATCH_RECORDS, MAX_BATCH_BYTES = 256, 2**20
"""Where a batch ends. Its last call may bring a record too many, or up to `_AT_ONCE` records, of those that are fetched
already, where they are larger than those before them."""

_AT_ONCE = 32
"""Taken by one call: each waits for the interpreter's lock, with a busy loop up to 5 ms, and so would each record."""

_MAX_BATCHES = 2
_POLL_S = 0.05
LEAVE_WITHIN_S = 10.0
"""Brokers that answer take less than one; whose do not, its group misses it after the session timeout."""


class Reader:
    """Polls `consumer` until it is stopped, and closes it.

    `take` gets each batch on the loop. `turn` is called in the thread between two polls: whoever wants something done
    to the consumer does it there, for librdkafka's calls may block. While the loop stands still, nothing is polled: so
    the group's `max.poll.interval.ms` watches over the loop. `failed` is set when the thread ends by an error, whatever
    it was; it leaves the group then too.

    Records of a partition come in turn and none is passed over, from where `gaps` was told that it begins: the consumer
    goes back for one that shows itself late. What the log does not have at all is logged, and each kind of trouble of
    the brokers once.
    """

    def __init__(
        self,
        consumer: Consumer,
        take: Callable[[list[Message]], None],
        turn: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[StreamScribeError] = self._loop.create_future()
        self._consumer = consumer
        self._take = take
        self._turn = turn
        self.gaps = Gaps()
        """The thread's, once it has started."""
        self._permits = threading.Semaphore(_MAX_BATCHES)
        self._stopping = False
        self._told: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)

    def start(self) -> None:
        """Begins to poll."""
        self._thread.start()

    async def stop(self) -> None:
        """Ends the polling and closes the consumer, which leaves its group; what is revoked is asked of the loop.

        Returns also where the brokers let nobody leave: closing a consumer has no time-out of its own.
        """
        self._stopping = True
        await asyncio.to_thread(self._thread.join, LEAVE_WITHIN_S)

    def on_loop(self, function: Callable[..., None], *args: Any) -> None:
        """In the thread: calls a function on the loop, after the batches that were handed over."""
        with suppress(RuntimeError):  # the loop is closed: the process ends
            self._loop.call_soon_threadsafe(function, *args)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
                batch = self._polled()
                if batch and self._permit():
                    self.on_loop(self._hand_over, batch)
        except BusUnavailable as error:
            self.on_loop(self._fail, error)
        except (KafkaException, RuntimeError) as error:
            self.on_loop(self._fail, BusUnavailable(f"the log cannot be read: {config.explain(error)}"))
        except Exception as error:  # noqa: BLE001 - the thread's edge: who waits for records may not wait for ever
            self.on_loop(self._loop.call_exception_handler, {"message": "reading the log", "exception": error})
            self.on_loop(self._fail, InternalError())
        finally:
            with suppress(KafkaException, RuntimeError):
                self._consumer.close()

    def _polled(self) -> list[Message]:
        batch: list[Message] = []
        size = 0
        self._go_back()
        came = self._consumer.consume(1, _POLL_S)
        while came:
            for message in came:
                error = message.error()
                if error is None:
                    if self._in_turn(message):
                        batch.append(message)
                        size += len(message)
                else:
                    self._trouble(error)
            self._go_back()
            if len(batch) >= MAX_BATCH_RECORDS or size >= MAX_BATCH_BYTES:
                break
            fit = (MAX_BATCH_BYTES - size) * len(batch) // max(1, size)
            came = self._consumer.consume(min(max(1, fit), _AT_ONCE), 0)
        return batch

    def _trouble(self, error: KafkaError) -> None:
        """Raises what only somebody can mend; the rest is told once, for librdkafka tries again by itself."""
        if (unreadable := config.unreadable(error)) is not None:
            raise unreadable
        if error.code() not in self._told:
            self._told.add(error.code())
            _log.warning("the log cannot be read for now; it is tried again", detail=config.explain(error))

    def _in_turn(self, message: Message) -> bool:
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        missing = self.gaps.missing
        taken = self.gaps.takes((topic, partition), offset)
        if self.gaps.missing != missing:
            first = offset - (self.gaps.missing - missing)
            where = f"records {first} to {offset - 1} of partition {partition} of {topic}"
            _log.error("the log does not have what it should; it is passed over", detail=where)
        return taken

    def _go_back(self) -> None:
        for where, offset in self.gaps.behind().items():
            with suppress(KafkaException):  # tried again
                self._consumer.seek(TopicPartition(*where, offset))
                self.gaps.gone_back(where)

    def _permit(self) -> bool:
        """Waits until the loop has taken enough of what it was given; False once stopped."""
        while not self._stopping:
            if self._permits.acquire(timeout=_POLL_S):
                return True
        return False

    def _hand_over(self, batch: list[Message]) -> None:
        try:
            self._take(batch)
        finally:
            self._permits.release()

    def _fail(self, error: StreamScribeError) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
