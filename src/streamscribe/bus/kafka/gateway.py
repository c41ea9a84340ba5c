"""The gateway's end of Kafka's log: publishes records, and reads the one partition of results that is its own."""

import asyncio
from collections import deque
from typing import TypeVar

from confluent_kafka import Message

from streamscribe.bus.backlog import Backlog, audio_bytes
from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.assigned import at_end
from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.envelope import (
    NO_EPOCH,
    Moved,
    Settled,
    decode_settled,
    headers_of,
    read_event_headers,
    read_key,
    read_moved,
    record_headers,
)
from streamscribe.bus.kafka.lane import Lane, Waiter
from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.pasts import Pasts
from streamscribe.bus.kafka.reader import Reader
from streamscribe.bus.kafka.sender import Sender
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BusUnavailable, Draining, SessionSuperseded, StreamScribeError
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.records import (
    AudioChunk,
    Checkpointed,
    Emitted,
    Failed,
    Finished,
    Record,
    SessionAbandoned,
    SessionOpened,
    WorkerEvent,
)
from streamscribe.core.session_past import SessionPast
from streamscribe.ports import EventHandler, Place, Ticket
from streamscribe.settings import KafkaSettings, SettingsError
from streamscribe.wire.bus_records import decode_event, encode_record

TAKE_OVER_S = 8.0
"""How long a client waits at most until its session has come from another gateway."""

DOUBT_S = 10.0
"""So long the owner of a session has to speak where another worker says that it could not get it for a defect: one that
was away, and whose session it is no more. Longer than a takeover; who hears audio speaks at once."""

MAX_HELD = 10_000
"""Events of one session that come while its past is read."""

_T = TypeVar("_T")


class KafkaGatewayBus:
    """`ports.GatewayBus` over Kafka. A completed `publish` means: all in-sync replicas have the record.

    While the brokers are away, `publish` waits, which bounds what is under way by the backlog of each session; it goes
    on by itself. A record that was not taken for `kafka.delivery_timeout_s` fails its session: BusUnavailable for it
    and for all that its session publishes after it. Events of an epoch older than a session's newest are dropped and
    counted in `fenced`. Not thread-safe.

    A session can go on at another gateway (`take_over`). The one that had it hears so by a `Failed` with
    SessionSuperseded, at once if a worker has the session; what it still publishes is dropped by the workers.
    """

    durability = "log"

    def __init__(self, kafka: KafkaSettings, max_backlog_s: float, max_message_bytes: int, reply_to: int) -> None:
        """`reply_to` is the partition of results that this gateway reads, and no other gateway.

        Raises SettingsError for settings that cannot work. Call `start` before anything else.
        """
        if not 0 <= reply_to < kafka.result_partitions:
            raise SettingsError(
                f"setting kafka.result_partitions: {kafka.result_partitions} have no number {reply_to} for this gateway"
            )
        self._kafka = kafka
        self._max_message_bytes = max_message_bytes
        self._max_backlog_s = max_backlog_s
        self._reply_to = reply_to
        self._topics = Topics.of(kafka)
        self._lanes: dict[SessionId, Lane] = {}
        self._handler: EventHandler | None = None
        self._sender: Sender | None = None
        self._reader: Reader | None = None
        self._read_to = 0
        self._pasts = Pasts(kafka, max_message_bytes)
        self._dead_letters: DeadLetters | None = None
        self._closed = False
        self.fenced = 0
        """Events that were dropped because another worker has the session."""

    async def start(self) -> None:
        """Connects. Raises BusUnavailable where no broker answers, SettingsError where the topics are not as set."""
        await asyncio.to_thread(topics.check, self._kafka)
        self._sender = Sender(config.producer(self._kafka, self._max_message_bytes, patient=False))
        self._sender.on_room = self._drain_all
        self._dead_letters = DeadLetters(self._sender, self._topics.dead_letter)
        ours = topics.RESULTS_GROUP, self._topics.results, self._reply_to
        consumer, self._read_to = await asyncio.to_thread(at_end, self._kafka, *ours, self._max_message_bytes)
        self._reader = Reader(consumer, self._take)
        self._reader.gaps.begin((self._topics.results, self._reply_to), self._read_to)
        self._reader.start()

    @property
    def dead_letters(self) -> int:
        """Results that could not be read."""
        return 0 if self._dead_letters is None else self._dead_letters.count

    async def failed(self) -> StreamScribeError:
        """Returns when the results cannot be read any more; only a new start helps."""
        return await asyncio.shield(self._started(self._reader).failed)

    async def check(self) -> None:
        """Returns when the brokers answer and have our topics; raises BusUnavailable."""
        await self._started(self._sender).check(self._topics.names)

    def room(self, session_id: SessionId, size_bytes: int) -> bool:
        """Whether `publish` of so much audio would wait for nothing but the brokers' answer."""
        lane = self._lanes.get(session_id)
        return lane is None or self._has_room(lane, size_bytes)

    async def publish(self, record: Record) -> None:
        """Returns when the record is in the log; in turn within its session. See the class for errors."""
        if self._closed:
            raise Draining
        lane = self._lane(record)
        if lane is None:
            return
        done: Waiter = asyncio.get_running_loop().create_future()
        if isinstance(record, SessionAbandoned):
            self._forget(record.session_id)
            self._send(lane, record, done)
        elif lane.error is not None:
            raise lane.error
        elif self._has_room(lane, audio_bytes(record)):
            self._send(lane, record, done)
        else:
            lane.waiting.append((record, done))
        await done

    def attach_gateway(self, handler: EventHandler) -> None:
        """Gives `handler` each event of this gateway's sessions from now on."""
        self._handler = handler

    def here(self, generation: int) -> Place:
        """Where this gateway will hear of a session that begins, or goes on, here and now."""
        return Place(self._reply_to, self._read_to, generation)

    def stand(self, session_id: SessionId, mark: bytes) -> Place | None:
        """The place from which another gateway may read on that knows the mark."""
        lane = self._lanes.get(session_id)
        number = partition_of(session_id, self._kafka.audio_partitions)
        audio_offset = self._started(self._sender).delivered_to.get((self._topics.audio, number))
        if lane is None or lane.held is not None or audio_offset is None:
            return None
        return Place(self._reply_to, self._read_to, lane.generation, mark, lane.epoch, audio_offset)

    def expect(self, ticket: Ticket) -> bool:
        """Keeps what is told here of a session that is about to be this gateway's, for `take_over`; False where the bus
        has the session already. `let_go` undoes it."""
        made = Lane.coming(ticket, self._max_backlog_s)
        return self._lanes.setdefault(ticket.session_id, made) is made

    async def take_over(self, ticket: Ticket, past: SessionPast) -> None:
        """Takes a session from the gateways before this one, whose place is the ticket's last; fills in its `past`.

        Its worker is told, and what it says from `expect` on is kept until `go_on`. Raises BusUnavailable where that
        takes too long, as while no worker has the session; SessionSuperseded where another gateway was quicker;
        SessionNotFound where the log does not reach back so far.
        """
        lane = self._lanes.get(ticket.session_id)
        if lane is None or lane.held is None or lane.generation != ticket.places[-1].generation:
            lane = self._lanes[ticket.session_id] = Lane.coming(ticket, self._max_backlog_s)
        wanted = Past.of(ticket, past, self._kafka)
        try:
            async with asyncio.timeout(TAKE_OVER_S):
                await self._announce(lane, ticket)
                await self._pasts.read(wanted)
        except BaseException as error:
            if self._lanes.get(ticket.session_id) is lane:
                self._forget(ticket.session_id)
            if isinstance(error, TimeoutError):
                raise BusUnavailable("the session did not come in time", retry_after_s=1.0) from None
            raise
        if self._lanes.get(ticket.session_id) is not lane:
            raise BusUnavailable("the session has moved on, or said too much meanwhile", retry_after_s=1.0)
        self._hold_again(lane, wanted.epoch)

    def _hold_again(self, lane: Lane, heard: LeaseEpoch | None) -> None:
        """What has come is looked through again, behind the past: whose owner may be newer than one that spoke first.

        What an owner said before the next one spoke stays, at most MAX_HELD; so does which epoch was the newest.
        """
        newest, held = lane.epoch or NO_EPOCH, lane.held or ()
        lane.epoch, lane.held = heard, deque()
        for event, epoch in held:
            self._deliver(event, epoch)
        lane.epoch = max(lane.epoch or NO_EPOCH, newest)

    def go_on(self, session_id: SessionId, past: SessionPast) -> None:
        """The session of `take_over` is here: what came meanwhile is delivered, and the rest as it comes."""
        lane = self._lanes.get(session_id)
        if lane is None or lane.held is None:
            return
        lane.published_bytes = lane.settled_bytes = past.uplink.received_bytes
        lane.published_records = lane.settled_records = past.uplink.next_index
        lane.next_sequence = past.uplink.next_sequence
        held, lane.held = lane.held, None
        for event, _ in held:
            self._hand_over(event)

    def let_go(self, session_id: SessionId) -> None:
        """Another gateway may go on with the session: nothing more is told of it here, and its worker keeps it."""
        self._forget(session_id)

    async def close(self) -> None:
        """Stops delivery; publishers that wait for room get Draining, what was sent has some seconds to arrive."""
        if self._closed:
            return
        self._closed = True
        for lane in self._lanes.values():
            lane.free(Draining())
        await self._pasts.close()
        if self._reader is not None:
            await self._reader.stop()
        if self._sender is not None:
            await self._sender.close()
        self._lanes.clear()

    def check_integrity(self) -> None:
        """Published = settled + unsettled, and nothing waits that would fit."""
        for lane in self._lanes.values():
            lane.backlog.check_integrity()

    async def _announce(self, lane: Lane, ticket: Ticket) -> None:
        """Publishes the session's beginning again: workers learn from its headers who its gateway is."""
        left = sorted({place.partition for place in ticket.places[:-1]})
        headers = record_headers(self._reply_to, 0, lane.trace_id, lane.generation, left)
        record = encode_record(ticket.opened)
        await self._started(self._sender).put(self._topics.audio, record, headers, key=ticket.session_id)

    def _has_room(self, lane: Lane, size_bytes: int) -> bool:
        return not lane.waiting and lane.backlog.fits(size_bytes) and self._started(self._sender).room

    def _lane(self, record: Record) -> Lane | None:
        lane = self._lanes.get(record.session_id)
        if lane is None and isinstance(record, SessionOpened):
            backlog = Backlog(self._max_backlog_s, record.options.audio.bytes_per_second)
            lane = self._lanes[record.session_id] = Lane(backlog, record.trace_id)
        return lane

    def _send(self, lane: Lane, record: Record, done: Waiter) -> None:
        if isinstance(record, AudioChunk):
            lane.next_sequence = record.sequence
        headers = record_headers(
            self._reply_to, lane.published_bytes, lane.trace_id, lane.generation, next_sequence=lane.next_sequence
        )
        size = audio_bytes(record)

        def delivered(error: StreamScribeError | None) -> None:
            if error is not None:
                lane.fail(error)
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

        try:
            self._started(self._sender).send(
                self._topics.audio, encode_record(record), headers, delivered, key=record.session_id
            )
        except StreamScribeError as error:
            delivered(error)
            return
        lane.published_bytes += size
        lane.published_records += 1
        if isinstance(record, AudioChunk):
            lane.next_sequence = record.sequence + 1
        lane.backlog.add(size)

    def _drain(self, lane: Lane) -> None:
        sender = self._started(self._sender)
        while lane.waiting and sender.room and lane.backlog.fits(audio_bytes(lane.waiting[0][0])):
            self._send(lane, *lane.waiting.popleft())

    def _drain_all(self) -> None:
        for lane in self._lanes.values():
            self._drain(lane)

    def _forget(self, session_id: SessionId) -> None:
        lane = self._lanes.pop(session_id, None)
        if lane is not None:
            lane.free()

    def _take(self, batch: list[Message]) -> None:
        self._started(self._dead_letters).take_each(batch, self._take_one)

    def _take_one(self, message: Message) -> None:
        """Raises BadRequest for what nobody can read."""
        self._read_to = (message.offset() or 0) + 1
        headers = headers_of(message)
        moved = read_moved(headers)
        if moved is not None:
            self._move(read_key(message.key()), moved)
            return
        epoch = read_event_headers(headers)
        value = message.value() or b""
        if epoch is None:
            for settled in decode_settled(value):
                self._settle(settled)
        else:
            self._deliver(decode_event(value), epoch)

    def _settle(self, settled: Settled) -> None:
        lane = self._current(settled.session_id, settled.epoch)
        if lane is not None:
            lane.settle(settled)
            self._drain(lane)

    def _deliver(self, event: Emitted, epoch: LeaseEpoch) -> None:
        if epoch == NO_EPOCH:
            self._doubt(event)
        lane = self._current(event.session_id, epoch)
        if lane is None or isinstance(event, Checkpointed) or self._closed:
            return
        if lane.held is not None:
            lane.held.append((event, epoch))
            if len(lane.held) > MAX_HELD:
                self._forget(event.session_id)
        else:
            self._hand_over(event)

    def _hand_over(self, event: WorkerEvent) -> None:
        if isinstance(event, (Finished, Failed)):
            self._forget(event.session_id)
        if self._handler is None:
            return
        try:
            self._handler(event)
        except Exception as error:  # noqa: BLE001 - the gateway's edge: its defect may not end the reading for all
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a gateway failed to take an event", "exception": error}
            )

    def _move(self, session_id: SessionId, moved: Moved) -> None:
        """A worker's last word to former gateways. Where the last of them had this partition, what it told here before
        that is of the past; where another was in between, a worker that takes the session over may tell us before it.
        """
        lane = self._lanes.get(session_id)
        if lane is None or (lane.epoch is not None and moved.epoch < lane.epoch):
            return
        if moved.generation > lane.generation:
            self._forget(session_id)
            if self._handler is not None and lane.held is None:
                self._handler(Failed(session_id, SessionSuperseded()))
        elif moved.generation == lane.generation and lane.held is not None and not lane.moved:
            lane.moved = True
            lane.held.clear()

    def _current(self, session_id: SessionId, epoch: LeaseEpoch) -> Lane | None:
        """The session's lane, if its newest owner speaks."""
        lane = self._lanes.get(session_id)
        if lane is None:
            return None
        if lane.epoch is not None and epoch < lane.epoch:
            self.fenced += 1
            return None
        lane.epoch = epoch
        lane.trust()
        return lane

    def _doubt(self, event: Emitted) -> None:
        """Whose session it is may have died: the next worker cannot get it, and nobody else would say so."""
        lane = self._lanes.get(event.session_id)
        if lane is not None and lane.epoch and lane.doubt is None:
            lane.doubt = asyncio.get_running_loop().call_later(DOUBT_S, self._deliver, event, lane.epoch)

    @staticmethod
    def _started(part: _T | None) -> _T:
        if part is None:
            raise BusUnavailable("the bus is not started")
        return part
