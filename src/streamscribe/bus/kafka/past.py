"""One session's past in the log: what of it is wanted, and how far it was read. Fed message by message, in a thread."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Message

from streamscribe.bus.kafka.envelope import NO_EPOCH, headers_of, read_event_headers, read_moved, read_record_headers
from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.core.errors import SessionSuperseded, StreamScribeError
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.records import Checkpointed, Failed, Finished, Record, SessionOpened, WorkerEvent
from streamscribe.core.session_past import SessionPast
from streamscribe.ports import Place, Ticket
from streamscribe.settings import KafkaSettings
from streamscribe.wire.bus_records import decode_event, decode_record

See = Callable[[Record, int, int | None], None]


@dataclass(slots=True, eq=False)
class Past:
    """What of a session is wanted, and how far it was read.

    The session's records are those before the one that announces `generation`; `see` gets them, each with the audio
    bytes before it and the chunk that came next. What was told is in `places`, in turn: in each until the worker said
    there that the session had moved on; `hear` gets it. Both are called in a thread, one at a time.
    """

    session_id: SessionId
    generation: int
    audio_partition: int
    result_partitions: int
    places: tuple[Place, ...]
    see: See
    hear: Callable[[WorkerEvent], None]
    done: asyncio.Future[None]
    epoch: LeaseEpoch | None = None
    """The newest worker's that was heard."""
    leg: int = 0
    error: StreamScribeError | None = None
    records_read: bool = False
    _generation: int = 0
    _not_yet: bool = field(default=False)
    _given_up: Failed | None = None
    """What a worker said last that could not get the session for a defect."""

    @classmethod
    def of(cls, ticket: Ticket, past: SessionPast, kafka: KafkaSettings) -> "Past":
        """Of the session, up to the last of the ticket's places. On the loop."""
        return cls(
            ticket.session_id,
            ticket.places[-1].generation,
            partition_of(ticket.session_id, kafka.audio_partitions),
            kafka.result_partitions,
            ticket.places[:-1],
            past.uplink.take,
            past.hear,
            asyncio.get_running_loop().create_future(),
        )

    def __post_init__(self) -> None:
        if self.places:
            self.epoch = self.places[0].epoch
            self._generation = self.places[0].generation

    @property
    def complete(self) -> bool:
        """Whether everything was read, or cannot be."""
        return self.error is not None or (self.records_read and self.leg >= len(self.places))

    @property
    def place(self) -> Place | None:
        """Where what was told is read now; None where all of it was."""
        return self.places[self.leg] if self.leg < len(self.places) else None

    def record(self, message: Message) -> None:
        """A message of the session in its partition of records. Raises BadRequest."""
        if self.records_read:
            return
        headers = read_record_headers(headers_of(message), self.result_partitions)
        if headers.generation > self.generation:
            self.error = SessionSuperseded()
        elif headers.generation == self.generation:
            self.records_read = True
        elif headers.generation >= self._generation:
            self._generation = headers.generation
            record = decode_record(message.value() or b"")
            if not (isinstance(record, SessionOpened) and headers.generation):
                self.see(record, headers.audio_at, headers.next_sequence)

    def begin_leg(self) -> None:
        """Reads on at the next place. On a partition that it has left before, what is old comes first."""
        place = self.place
        self._not_yet = place is not None and any(
            before.partition == place.partition for before in self.places[: self.leg]
        )

    def result(self, message: Message) -> None:
        """A message of the session in the partition of its present place. Raises BadRequest."""
        place = self.place
        if place is None or (message.offset() or 0) < place.offset:
            return
        headers = headers_of(message)
        moved = read_moved(headers)
        if moved is not None:
            if self.epoch is not None and moved.epoch < self.epoch:
                return  # of one that had lost the session: its owner has more to tell here
            self._not_yet = self._not_yet and moved.generation < place.generation
            following = self.places[self.leg + 1].generation if self.leg + 1 < len(self.places) else self.generation
            if moved.generation >= following:
                self.leg += 1
                if self._given_up is not None and self.leg == len(self.places):
                    self.hear(self._given_up)
            return
        epoch = read_event_headers(headers)
        if epoch is None or self._not_yet:
            return
        if self.epoch is not None and epoch < self.epoch:
            event = decode_event(message.value() or b"")
            if epoch == NO_EPOCH and isinstance(event, Failed):
                self._given_up = event
            return
        self.epoch, self._given_up = epoch, None
        event = decode_event(message.value() or b"")
        if not isinstance(event, Checkpointed):
            self.hear(event)
        if isinstance(event, Finished | Failed):  # nobody needs its records any more, nor finds them
            self.leg, self.records_read = len(self.places), True

    def settle(self, otherwise: StreamScribeError | None = None) -> None:
        """On the loop: tells who waits that it is complete, or what it ends with instead."""
        if not self.done.done():
            error = self.error or (None if self.complete else otherwise)
            self.done.set_result(None) if error is None else self.done.set_exception(error)
