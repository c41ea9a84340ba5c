"""Reads sessions' pasts out of the log, for a gateway that takes them over: what was published, and what was told."""

import asyncio
import threading
import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.reader import LEAVE_WITHIN_S
from streamscribe.bus.kafka.reading import Reading
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BusUnavailable, InternalError, StreamScribeError
from streamscribe.settings import KafkaSettings

MAX_PASTS = 4096
"""That are read at one time."""

_LINGER_S = 2.0


class Pasts:
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
                    self._thread = threading.Thread(target=self._run, args=run, name="kafka-pasts", daemon=True)
                    self._thread.start()
            await past.done
        except InternalError as error:
            told = {"message": "a session's past met a defect", "exception": error.__cause__}
            asyncio.get_running_loop().call_exception_handler(told)
            raise
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
        idle_since = time.monotonic()
        try:
            consumer: Consumer = config.made(Consumer, self._properties)
            reading = Reading(consumer, self._topics)
            while (asked := self._next(reading, idle_since)) is not None:
                if asked or reading.busy:
                    idle_since = time.monotonic()
                for past in reading.step(asked):
                    tell(past, error)
        except KafkaException as trouble:
            error = BusUnavailable("the session's past cannot be read", retry_after_s=1.0)
            error.__cause__ = trouble
        finally:
            left: list[Past] = []
            with self._lock:
                if self._thread is threading.current_thread():  # else who asks now has another thread already
                    left, self._asked, self._thread = self._asked, [], None
            for past in [*left, *(reading.pasts() if reading is not None else ())]:
                tell(past, error)
            if reading is not None:
                reading.close()

    def _next(self, reading: Reading, idle_since: float) -> list[Past] | None:
        """Who has asked since; None: it is time to end. What is asked from then on finds another thread."""
        with self._lock:
            asked, self._asked = self._asked, []
            if self._stopping:
                self._asked = asked
                return None
            if not asked and not reading.busy and time.monotonic() > idle_since + _LINGER_S:
                self._thread = None
                return None
            return asked
