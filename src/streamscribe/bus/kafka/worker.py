"""The worker's end of Kafka's log: the sessions of the partitions that its group gave to this worker."""

import asyncio
from collections.abc import Callable, Collection

from confluent_kafka import Message

from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.envelope import headers_of, read_key, read_record_headers
from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.mark import read_mark
from streamscribe.bus.kafka.membership import Membership, OnPartitions
from streamscribe.bus.kafka.names import new_name
from streamscribe.bus.kafka.owned import Owned
from streamscribe.bus.kafka.partition import Partition
from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.bus.kafka.sender import Sender
from streamscribe.bus.kafka.sessions import Sessions
from streamscribe.bus.kafka.topics import Topics
from streamscribe.bus.kafka.trial import Steps
from streamscribe.core.errors import BadRequest, StreamScribeError
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.records import Emitted, SessionOpened
from streamscribe.ports import RecordHandler, SessionStore
from streamscribe.settings import KafkaSettings
from streamscribe.wire.bus_records import decode_record

LOOK_AGAIN_S = 3.0
"""Within that time the group says that a partition is another's."""

COMMIT_INTERVAL_S = 0.5
ORPHANED_AFTER_S = 60.0


class KafkaWorkerBus:
    """`ports.WorkerBus` over Kafka: a member of the group on `audio-chunks`, which it joins when a worker is attached.

    At the first record of a session it takes the session's lease from the store, whose epoch goes with all it tells.
    A session that begins in the middle was another worker's: it is opened with the store's checkpoint, and records
    before that are passed over. Committed is what no live session needs: the partition's next owner finds the rest.
    A checkpoint counts only once all that was told before it is in the log, and the store has it.

    The end of a session is marked in the log, by an abandonment. When a partition is given away its sessions are
    abandoned here and nothing more is told of them. A record that cannot be read is named in the dead-letter topic, and
    the partition goes on; what goes wrong with one session fails that one. Not thread-safe.

    A session at which two or three workers ended by themselves is tried alone (`trial`), and fails with Quarantined
    once two have ended so at one place. One that no gateway has had for `orphaned_after_s` fails with Timeout.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        store: SessionStore,
        max_message_bytes: int,
        *,
        orphaned_after_s: float = ORPHANED_AFTER_S,
    ) -> None:
        """`orphaned_after_s`: longer than clients may stay away, and than gateways take to tell the store.

        Call `start` before anything else.
        """
        self._kafka = kafka
        self._max_message_bytes = max_message_bytes
        self._topics = Topics.of(kafka)
        self.owner = new_name()
        """What the leases of this worker are taken under."""
        self.on_taken_over: Callable[[SessionOpened], None] = lambda opened: None
        """Told of each session that goes on here and was another worker's before."""
        self.on_quarantined: Callable[[SessionId, TraceId, int], None] = lambda session_id, trace_id, index: None
        """Told of each session that is not tried again, and at which record workers ended."""
        self.steps: Steps = lambda session_id: frozenset()
        """Asked what models have to do yet for what is settled of a session: the worker may end by that."""
        self.on_partitions: OnPartitions = lambda what, numbers: None
        """Told what becomes of its partitions; also of no partitions."""
        self._sessions = Sessions(
            Leases(store, self.owner),
            self._topics,
            orphaned_after_s,
            steer=self._steer,
            fail=self._fail,
            took_over=lambda opened: self.on_taken_over(opened),
            quarantines=lambda *what: self.on_quarantined(*what),
            lost_one=self._look_again,
            steps=lambda session_id: self.steps(session_id),
        )
        self._partitions = self._sessions.partitions
        self._sender: Sender
        self._membership: Membership
        self._joined = self._hung = False

    async def start(self) -> None:
        """Connects. Raises BusUnavailable where no broker answers, SettingsError where the topics are not as set."""
        await asyncio.to_thread(topics.check, self._kafka)
        sender = Sender(config.producer(self._kafka, self._max_message_bytes, patient=True))
        membership = Membership(
            config.member(self._kafka, topics.AUDIO_GROUP, self._max_message_bytes),
            self._topics.audio,
            take=self._take,
            assigned=self._assigned,
            give_up=self._give_up,
            lost=self._lost,
        )
        self._connect(sender, membership)

    def _connect(self, sender: Sender, membership: Membership) -> None:
        self._sender, self._membership = sender, membership
        self._sessions.connect(sender)

    @property
    def joined(self) -> asyncio.Event:
        """Set while the group has given it its share of the partitions: none, where others have them all."""
        return self._membership.joined

    @property
    def partitions(self) -> frozenset[int]:
        """Those that this worker has now."""
        return frozenset(self._partitions)

    @property
    def sessions(self) -> Collection[Owned]:
        """Those of its partitions that are not over."""
        return self._sessions.all.values()

    @property
    def dead_letters(self) -> int:
        """Records that could not be read, and sessions that ended workers."""
        return self._sessions.dead_letters.count

    @property
    def lost(self) -> int:
        """Sessions that another worker had taken."""
        return self._sessions.lost

    @property
    def taken_over(self) -> int:
        """Sessions that were another worker's and went on here."""
        return self._sessions.taken_over

    @property
    def orphaned(self) -> int:
        """Sessions that no gateway had any more."""
        return self._sessions.orphaned

    @property
    def quarantined(self) -> int:
        """Sessions at which workers ended, and which are not tried again."""
        return self._sessions.quarantined

    @property
    def dropped(self) -> int:
        """Partials and progress that were not told because the brokers did not keep up."""
        return self._sessions.teller.dropped

    @property
    def unsent_bytes(self) -> int:
        """What was told and is not in the log yet."""
        return self._sender.unsent_bytes

    async def failed(self) -> StreamScribeError:
        """Returns when records cannot be read any more: the process is of no use, and another must take over."""
        return await asyncio.shield(self._membership.failed)

    async def check(self) -> None:
        """Returns when the brokers answer and have our topics; raises BusUnavailable."""
        await self._sender.check(self._topics.names)

    def attach_worker(self, handler: RecordHandler) -> None:
        """Joins the group; `handler` gets the records of the sessions of its partitions."""
        self._sessions.handler = handler
        if not self._joined and not self._sessions.closed:
            self._joined = True
            self._membership.join()
            self._sessions.spawn(self._sessions.upkeep.run(self._in_group))
            self._sessions.spawn(self._commit())

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """Counts a record as processed; its gateway is told soon."""
        self._sessions.settle(session_id, size_bytes)

    def emit(self, event: Emitted) -> None:
        """Sends an event of a live session to its gateway.

        Partials and progress are dropped while the brokers do not keep up. Raises BusUnavailable where not even a final
        can be kept: then only another worker can go on.
        """
        self._sessions.emit(event)

    async def close(self, *, hung: bool = False) -> None:
        """Gives all sessions up and leaves the group; what was told has some seconds to arrive.

        `hung`: the worker does nothing more, perhaps because of what it is at. For sessions that it has not finished
        with it counts as ended by itself.
        """
        if self._sessions.closed:
            return
        self._sessions.closed, self._hung = True, hung
        if self._joined:
            await self._membership.leave()
        self._lost(list(self._partitions))
        await self._sessions.let_end()
        await self._sessions.cancel_tasks()
        await self._sender.close()

    def check_integrity(self) -> None:
        """The equations of all partitions."""
        for partition in self._partitions.values():
            partition.check_integrity()

    # what comes

    def _take(self, batch: list[Message]) -> None:
        self._sessions.dead_letters.take_each(batch, self._take_one)

    def _take_one(self, message: Message) -> None:
        """Raises BadRequest for what nobody can read."""
        number, offset = message.partition(), message.offset()
        partition = None if number is None else self._partitions.get(number)
        if partition is None or offset is None:
            return
        partition.positions.read(offset)
        found = headers_of(message)
        if (marked_by := read_mark(found)) is not None:
            self._sessions.marked(partition, marked_by)
            return
        headers = read_record_headers(found, self._kafka.result_partitions)
        record = decode_record(message.value() or b"")
        if record.session_id != read_key(message.key()):
            raise BadRequest("the key must be the record's session", field="key")
        is_new = record.session_id not in partition.sessions
        if is_new and number != partition_of(record.session_id, self._kafka.audio_partitions):
            raise BadRequest("the partition must be that of the record's session", field="partition")
        self._sessions.receive(partition, record, headers, offset)
        self._steer(partition)

    def _steer(self, partition: Partition) -> None:
        """Back-pressure: a partition whose sessions are not processed is not read."""
        if partition.turns():
            change = self._membership.pause if partition.paused else self._membership.resume
            change(partition.number)

    def _in_group(self) -> bool:
        return self._membership.silent_s * 1000 <= self._kafka.max_poll_interval_ms

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_INTERVAL_S)
            self._membership.commit(self._committable(self._partitions))

    def _committable(self, numbers: Collection[int]) -> dict[int, int]:
        found = {number: self._partitions[number].positions.committable() for number in numbers}
        return {number: offset for number, offset in found.items() if offset is not None}

    # what comes and goes

    def _assigned(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._partitions[number] = Partition(number)
            self._membership.resume(number)  # it may have been paused since it was lost, for what it had then
        self.on_partitions("assigned", numbers)

    async def _give_up(self, numbers: Collection[int]) -> dict[int, int]:
        """Lets partitions go, and gives where another goes on with them."""
        self.on_partitions("revoked", numbers)
        offsets = self._committable([number for number in numbers if number in self._partitions])
        await self._sessions.leases.release(self._lose_partitions(numbers))
        return offsets

    def _lost(self, numbers: Collection[int]) -> None:
        """The group gave them away; what is still in force of our leases would only keep others waiting."""
        self.on_partitions("lost", numbers)
        self._release(numbers)

    def _begun_again(self, numbers: Collection[int]) -> None:
        self.on_partitions("begun_again", numbers)
        self._release(numbers)

    def _release(self, numbers: Collection[int]) -> None:
        for session in self._lose_partitions(numbers):
            self._sessions.spawn(self._sessions.leases.release([session]), session)

    def _look_again(self, partition: Partition) -> None:
        """Another worker has a session of it: that worker's is the partition, as the group will say, or was.

        Where it stays ours it is read again, or the session, and those that wait for its lease, would be nobody's. All
        of its sessions are heard again then, as after a takeover: it has one offset.
        """

        def look() -> None:
            if self._partitions.get(partition.number) is partition:
                self._membership.begin_again(partition.number, self._begun_again)

        if not partition.in_doubt:
            partition.in_doubt = True
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, look)

    def _lose_partitions(self, numbers: Collection[int]) -> list[Owned]:
        """The sessions that were theirs, but for those at which the worker hangs: their leases end by themselves."""
        lost = [self._partitions.pop(number) for number in numbers if number in self._partitions]
        sessions = [session for partition in lost for session in partition.sessions.values()]
        for session in sessions:
            self._sessions.abandon(session)
        return [session for session in sessions if not (self._hung and self._is_at(session))]

    def _is_at(self, session: Owned) -> bool:
        return session.unsettled_records > 0 or bool(self.steps(session.session_id))

    def _fail(self, error: StreamScribeError) -> None:
        if not self._membership.failed.done():
            self._membership.failed.set_result(config.fatal(error))
