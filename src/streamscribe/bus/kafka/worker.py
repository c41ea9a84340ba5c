"""The worker's end of Kafka's log: the sessions of the partitions that its group gave to this worker."""

import asyncio
import os
import secrets
import socket
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any

from confluent_kafka import Message

from streamscribe.bus.backlog import audio_bytes
from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.envelope import RecordHeaders, read_key, read_record_headers, record_headers
from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.membership import Membership
from streamscribe.bus.kafka.owned import Owned
from streamscribe.bus.kafka.partition import Partition
from streamscribe.bus.kafka.sender import Sender
from streamscribe.bus.kafka.teller import Teller
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BadRequest, BusUnavailable, StoreUnavailable, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Checkpointed, Emitted, Failed, Record, SessionAbandoned, SessionOpened
from streamscribe.ports import RecordHandler, SessionStore
from streamscribe.settings import KafkaSettings
from streamscribe.wire.bus_records import decode_record, encode_record

COMMIT_INTERVAL_S = 0.5
_MIN_RENEWAL_S, _MAX_RENEWAL_S = 0.1, 5.0


class KafkaWorkerBus:
    """`ports.WorkerBus` over Kafka: a member of the group on `audio-chunks`, which it joins when a worker is attached.

    At the first record of a session it takes the session's lease from the store, whose epoch goes with all it tells.
    A session that begins in the middle was another worker's: it is opened with the store's checkpoint, and records
    before that are passed over. Committed is what no live session needs: the partition's next owner finds the rest.
    A checkpoint counts only once all that was told before it is in the log, and the store has it.

    The end of a session is marked in the log, by an abandonment. When a partition is given away its sessions are
    abandoned here and nothing more is told of them. A record that cannot be read is named in the dead-letter topic, and
    the partition goes on. Not thread-safe.
    """

    def __init__(self, kafka: KafkaSettings, store: SessionStore, max_message_bytes: int) -> None:
        """Call `start` before anything else."""
        self._kafka = kafka
        self._max_message_bytes = max_message_bytes
        self._topics = Topics.of(kafka)
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        """What the leases of this worker are taken under."""
        self._leases = Leases(store, self.owner)
        self._partitions: dict[int, Partition] = {}
        self._sessions: dict[SessionId, Owned] = {}
        self._handler: RecordHandler | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sender: Sender
        self._teller: Teller
        self._membership: Membership
        self._dead_letters: DeadLetters
        self._joined = False
        self._closed = False
        self.lost = 0
        """Sessions that another worker had taken."""

    async def start(self) -> None:
        """Connects. Raises BusUnavailable where no broker answers, SettingsError where the topics are not as set."""
        await asyncio.to_thread(topics.check, self._kafka)
        self._sender = Sender(config.producer(self._kafka, self._max_message_bytes, patient=True))
        self._teller = Teller(self._sender, self._topics.results, self._delivered, self._fail)
        self._dead_letters = DeadLetters(self._sender, self._topics.dead_letter)
        self._membership = Membership(
            config.member(self._kafka, topics.AUDIO_GROUP, self._max_message_bytes),
            self._topics.audio,
            take=self._take,
            assigned=self._assigned,
            give_up=self._give_up,
            lost=self._lost,
        )

    @property
    def partitions(self) -> frozenset[int]:
        """Those that this worker has now."""
        return frozenset(self._partitions)

    @property
    def sessions(self) -> Collection[Owned]:
        """Those of its partitions that are not over."""
        return self._sessions.values()

    @property
    def dead_letters(self) -> int:
        """Records that could not be read."""
        return self._dead_letters.count

    @property
    def dropped(self) -> int:
        """Partials and progress that were not told because the brokers did not keep up."""
        return self._teller.dropped

    @property
    def unsent_bytes(self) -> int:
        """What was told and is not in the log yet."""
        return self._sender.unsent_bytes

    async def failed(self) -> BusUnavailable:
        """Returns when records cannot be read any more: the process is of no use, and another must take over."""
        return await asyncio.shield(self._membership.failed)

    async def check(self) -> None:
        """Returns when the brokers answer; raises BusUnavailable."""
        await self._sender.check(self._topics.audio)

    def attach_worker(self, handler: RecordHandler) -> None:
        """Joins the group; `handler` gets the records of the sessions of its partitions."""
        self._handler = handler
        if not self._joined and not self._closed:
            self._joined = True
            self._membership.join()
            self._spawn(self._renew())
            self._spawn(self._commit())

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """Counts a record as processed; its gateway is told soon."""
        session = self._sessions.get(session_id)
        if session is not None and self._partitions[session.partition].settle(session, size_bytes):
            self._steer(self._partitions[session.partition])
            self._teller.tell_settled(session)

    def emit(self, event: Emitted) -> None:
        """Sends an event of a live session to its gateway.

        Partials and progress are dropped while the brokers do not keep up. Raises BusUnavailable where not even a final
        can be kept: then only another worker can go on.
        """
        session = self._sessions.get(event.session_id)
        if session is None or not session.live or self._closed:
            return
        if isinstance(event, Checkpointed):
            session.checkpoints.append((session.told, event.checkpoint))
            self._save(session)
        else:
            self._teller.tell(session, event)

    async def close(self) -> None:
        """Gives all sessions up and leaves the group; what was told has some seconds to arrive."""
        if self._closed:
            return
        self._closed = True
        if self._joined:
            await self._membership.leave()
        self._lose_partitions(list(self._partitions))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._sender.close()

    def check_integrity(self) -> None:
        """The equations of all partitions."""
        for partition in self._partitions.values():
            partition.check_integrity()

    # what comes

    def _take(self, batch: list[Message]) -> None:
        for message in batch:
            number, offset = message.partition(), message.offset()
            partition = None if number is None else self._partitions.get(number)
            if partition is None or offset is None:
                continue
            partition.positions.read(offset)
            try:
                headers = read_record_headers(message.headers())
                record = decode_record(message.value() or b"")
                if record.session_id != read_key(message.key()):
                    raise BadRequest("the key must be the record's session", field="key")
            except BadRequest as error:
                self._dead_letters.bury(message, error)
            else:
                self._receive(partition, record, headers, offset)
                self._steer(partition)

    def _receive(self, partition: Partition, record: Record, headers: RecordHeaders, offset: int) -> None:
        session = partition.sessions.get(record.session_id)
        if session is None:
            if record.session_id in partition.gone:
                return
            session = Owned(record.session_id, partition.number, headers.reply_to)
            partition.sessions[record.session_id] = self._sessions[record.session_id] = session
            self._spawn(self._begin(session))
        if headers.generation < session.generation:  # of a gateway that has the session no more
            return
        session.hears(headers.reply_to, headers.generation)
        session.generation = headers.generation
        if headers.generation and isinstance(record, SessionOpened):
            session.left = headers.left
            self._teller.tell_moved(session)
            return
        if isinstance(record, SessionAbandoned):
            self._end(session, record)
            return
        session.come_bytes = max(session.come_bytes, headers.audio_at + audio_bytes(record))
        if record.index < session.next_index:
            return
        session.next_index = record.index + 1
        partition.positions.keep(session.session_id, record.index, offset)
        partition.come(session, audio_bytes(record))
        if session.live:
            self._hand_over(record)
        else:
            session.waiting.append(record)

    def _hand_over(self, record: Record) -> None:
        if self._handler is not None and not self._closed:
            self._handler(record)

    async def _begin(self, session: Owned) -> None:
        """Takes the lease of a session whose first record has come, then gives the worker what waited for it."""
        known = await self._leases.claim(session)
        if not session.over and (ticket := await self._leases.ticket(session)) is not None:
            session.hears(ticket.places[-1].partition, ticket.places[-1].generation)
        if session.over:  # abandoned, or its partition was given away
            await (self._leases.forget(session) if session.ended else self._leases.release([session]))
            return
        first = session.waiting[0] if session.waiting else None
        opened = known or (first if isinstance(first, SessionOpened) else None)
        session.opened_saved = known is not None
        begin = 1 if opened is None or opened.checkpoint is None else max(1, opened.checkpoint.index)
        self._teller.tell_moved(session)
        if opened is None or (first is not None and first.index > begin):
            lost = StoreUnavailable("what a worker needs to go on with the session is gone")
            self._teller.tell(session, Failed(session.session_id, lost))
        else:
            self._open(session, opened, begin)

    def _open(self, session: Owned, opened: SessionOpened, begin: int) -> None:
        """Goes live with `opened`, which the worker settles like a record, and the records from `begin` on."""
        partition = self._partitions[session.partition]
        if session.opened_saved:
            partition.positions.drop_before(session.session_id, begin)
        records = [record for record in session.waiting if record.index >= begin]
        for record in session.waiting:
            if record.index < begin:
                partition.settle(session, audio_bytes(record))
        partition.come(session, 0)
        session.waiting.clear()
        session.opened, session.live = opened, True
        session.next_index = max(session.next_index, begin)
        self._teller.tell_settled(session)
        self._save(session)
        for record in (opened, *records):
            if not session.over:
                self._hand_over(record)

    def _steer(self, partition: Partition) -> None:
        """Back-pressure: a partition whose sessions are not processed is not read."""
        if partition.turns():
            change = self._membership.pause if partition.paused else self._membership.resume
            change(partition.number)

    # what is kept

    def _delivered(self, session: Owned) -> None:
        if session.delivered == session.last_told:
            self._end(session, None)
        elif session.checkpoints and session.checkpoints[0][0] <= session.delivered:
            self._save(session)

    def _save(self, session: Owned) -> None:
        if not session.saving:
            session.saving = True
            self._spawn(self._save_newest(session))

    async def _save_newest(self, session: Owned) -> None:
        checkpoint = session.durable_checkpoint()
        while not session.over and (checkpoint is not None or not session.opened_saved):
            if not await self._leases.save(session, checkpoint):
                self._lose(session)
            elif checkpoint is not None and not session.over:
                self._partitions[session.partition].positions.drop_before(session.session_id, checkpoint.index)
            checkpoint = session.durable_checkpoint()
        session.saving = False

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_INTERVAL_S)
            self._membership.commit(self._committable(self._partitions))

    def _committable(self, numbers: Collection[int]) -> dict[int, int]:
        found = {number: self._partitions[number].positions.committable() for number in numbers}
        return {number: offset for number, offset in found.items() if offset is not None}

    async def _renew(self) -> None:
        """Thrice in the time of a lease, while we are in the group for sure: who is not may keep nobody waiting."""
        loop = asyncio.get_running_loop()
        while True:
            ends = [session.lease.expires_at for session in self._sessions.values() if session.lease is not None]
            left_s = (min(ends) - loop.time()) / 3 if ends else _MIN_RENEWAL_S
            await asyncio.sleep(min(max(left_s, _MIN_RENEWAL_S), _MAX_RENEWAL_S))
            if self._membership.silent_s * 1000 > self._kafka.max_poll_interval_ms:
                continue
            held = [session for session in self._sessions.values() if session.lease is not None]
            for session in await self._leases.renew(held) if held else ():
                self._lose(session)

    # what comes and goes

    def _assigned(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._partitions[number] = Partition(number)

    async def _give_up(self, numbers: Collection[int]) -> dict[int, int]:
        """Lets partitions go, and gives where another goes on with them."""
        offsets = self._committable([number for number in numbers if number in self._partitions])
        await self._leases.release(self._lose_partitions(numbers))
        return offsets

    def _lost(self, numbers: Collection[int]) -> None:
        """The group gave them away; what is still in force of our leases would only keep others waiting."""
        self._spawn(self._leases.release(self._lose_partitions(numbers)))

    def _lose_partitions(self, numbers: Collection[int]) -> list[Owned]:
        """The sessions that were theirs."""
        lost = [self._partitions.pop(number) for number in numbers if number in self._partitions]
        sessions = [session for partition in lost for session in partition.sessions.values()]
        for session in sessions:
            self._abandon(session)
        return sessions

    def _lose(self, session: Owned) -> None:
        """Another worker has it. Its positions stay as they are: what it needs is not ours to say."""
        if session.over:
            return
        self.lost += 1
        self._abandon(session)
        partition = self._partitions[session.partition]
        partition.let_go(session)
        self._steer(partition)

    def _abandon(self, session: Owned) -> None:
        """The worker lets the session go, and nothing more is told of it."""
        was_live, session.live, session.over = session.live, False, True
        self._sessions.pop(session.session_id, None)
        if was_live:
            self._hand_over(SessionAbandoned(session.session_id, session.next_index))

    def _end(self, session: Owned, abandoned: SessionAbandoned | None) -> None:
        """The session is over for everybody: its last event is in the log, or nobody wants it any more."""
        if session.over:
            return
        was_live, session.live, session.over, session.ended = session.live, False, True, True
        self._sessions.pop(session.session_id, None)
        partition = self._partitions[session.partition]
        partition.positions.forget(session.session_id)
        partition.let_go(session)
        self._steer(partition)
        if session.lease is not None:
            self._spawn(self._leases.forget(session))
        if abandoned is None:
            self._mark(session)
        elif was_live:
            self._hand_over(abandoned)

    def _mark(self, session: Owned) -> None:
        """Marks the end in the log: who reads the partition from further back lets the session go at once."""
        record = SessionAbandoned(session.session_id, session.next_index)
        headers = record_headers(session.reply_to, session.come_bytes, session.trace_id, session.generation)
        with suppress(StreamScribeError):  # then it is heard again for nothing: gateways do not know it any more
            key, partition = session.session_id, session.partition
            self._sender.send(
                self._topics.audio, encode_record(record), headers, _whatever, key=key, partition=partition
            )

    # edges

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler({"message": "a bus has a defect", "exception": error})
            self._fail(BusUnavailable())

    def _fail(self, error: StreamScribeError) -> None:
        if not self._membership.failed.done():
            self._membership.failed.set_result(error if isinstance(error, BusUnavailable) else BusUnavailable())


def _whatever(error: StreamScribeError | None) -> None:
    """For what may be missing."""
