"""Records that nobody can read: where they lie is written down, never what is in them."""

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass

from confluent_kafka import Message

from streamscribe.bus.kafka.envelope import NO_TRACE, headers_of, read_key, read_trace
from streamscribe.bus.kafka.sender import Sender
from streamscribe.core.errors import BadRequest, InternalError, StreamScribeError
from streamscribe.core.ids import TraceId

TELL_EVERY_S = 10.0
"""A flood of records that meet defects is told in so few lines, each with how many they were."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A reference to one record, and why it was passed over; `session_id` is empty where the key is no session's, and
    `trace_id` is `unknown` where no header says it. `offset` is None where it is not known any more. `v` is the version
    of this form."""

    topic: str
    partition: int
    offset: int | None
    session_id: str
    trace_id: str
    reason: str
    v: int = 1


class DeadLetters:
    """Writes references to the dead-letter topic, as JSON; counts them."""

    def __init__(self, sender: Sender, topic: str) -> None:
        self._sender = sender
        self._topic = topic
        self.count = 0
        self._defects = 0
        self._tell_at = 0.0

    def take_each(self, batch: Iterable[Message], take: Callable[[Message], None]) -> None:
        """Gives `take` each record. What it cannot take is buried, and costs nothing that comes behind it."""
        for message in batch:
            try:
                take(message)
            except Exception as error:  # noqa: BLE001 - the process' edge: a record costs itself alone
                self.bury(message, error)

    def bury(self, message: Message, error: Exception) -> None:
        """Writes a reference to the record; a defect that it met is told to who runs the process.

        In a flood of them at most every `TELL_EVERY_S`, with how many they were; the rest with the next. What
        cannot be written is only counted: it holds up no other.
        """
        trace_id = _trace_of(message, error)
        if not isinstance(error, StreamScribeError):
            self._tell(error)
            error = InternalError()
        try:
            session_id: str = read_key(message.key())
        except BadRequest:
            session_id = ""
        where = (message.topic() or "", message.partition() or 0, message.offset() or 0)
        self.write(DeadLetter(*where, session_id, trace_id, error.message))

    def _tell(self, defect: Exception) -> None:
        loop = asyncio.get_running_loop()
        self._defects += 1
        if loop.time() < self._tell_at:
            return
        many = f"{self._defects} records met defects, and this is the last one's"
        told = {"message": "a record met a defect" if self._defects == 1 else many, "exception": defect}
        self._tell_at, self._defects = loop.time() + TELL_EVERY_S, 0
        loop.call_exception_handler(told)

    def write(self, letter: DeadLetter) -> None:
        """Writes a reference, or only counts it."""
        self.count += 1
        with suppress(StreamScribeError):
            value = json.dumps(asdict(letter)).encode()
            self._sender.send(self._topic, value, [], lambda error: None, key=letter.session_id or None)


def _trace_of(message: Message, error: Exception) -> TraceId:
    """The trace of a record that met the error. Headers that could not be read are not looked at again: that would end
    the process; of who has not looked, this is the first look."""
    if isinstance(error, BadRequest) and error.field == "headers":
        return NO_TRACE
    try:
        return read_trace(headers_of(message))
    except BadRequest:
        return NO_TRACE
