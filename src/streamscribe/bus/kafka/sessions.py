"""The sessions of a worker's partitions: each from the first record that comes of it until it is let go."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from streamscribe.bus.backlog import audio_bytes
from streamscribe.bus.kafka.dead_letter import DeadLetter, DeadLetters
from streamscribe.bus.kafka.envelope import NO_EPOCH, RecordHeaders
from streamscribe.bus.kafka.leases import RELEASE_S, Leases
from streamscribe.bus.kafka.owned import Owned
from streamscribe.bus.kafka.partition import Partition
from streamscribe.bus.kafka.sender import Sender
from streamscribe.bus.kafka.teller import Teller
from streamscribe.bus.kafka.topics import Topics
from streamscribe.bus.kafka.trial import Steps, Trials, to_try
from streamscribe.bus.kafka.upkeep import Upkeep
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import (
    BusUnavailable,
    InternalError,
    Quarantined,
    StoreUnavailable,
    StreamScribeError,
    Timeout,
    TooLarge,
)
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.quarantine import NO_ENDS
from streamscribe.core.records import Checkpointed, Emitted, Failed, Record, SessionAbandoned, SessionOpened
from streamscribe.ports import RecordHandler


class Sessions:
    """Claims each session, gives its records to the worker, and lets go of it when it ends, fails or is another's.

    A session that begins in the middle was another worker's: it is opened with the store's checkpoint, and records
    before that are passed over. A checkpoint counts only once all that was told before it is in the log, and the store
    has it. What goes wrong with one session fails that session, clearly; `fail` is told what nobody can go on with.
    """

    def __init__(
        self,
        leases: Leases,
        topics: Topics,
        orphaned_after_s: float,
        *,
        steer: Callable[[Partition], None],
        fail: Callable[[StreamScribeError], None],
        took_over: Callable[[SessionOpened], None],
        quarantines: Callable[[SessionId, TraceId, int], None],
        lost_one: Callable[[Partition], None],
        steps: Steps,
    ) -> None:
        self.partitions: dict[int, Partition] = {}
        self.all: dict[SessionId, Owned] = {}
        self.handler: RecordHandler | None = None
        self.closed = False
        """Once set, the worker is given nothing and nothing is told."""
        self.tasks: dict[asyncio.Task[None], Owned | None] = {}
        self.lost = self.orphaned = self.quarantined = self.taken_over = 0
        self.leases = leases
        self._topics = topics
        self._steer, self._fail, self._lost_one = steer, fail, lost_one
        self._took_over, self._quarantines = took_over, quarantines
        self.trials = Trials(leases, self._hand_over, self.lose, steps)
        self.upkeep = Upkeep(
            leases,
            self.all,
            orphaned_after_s,
            spawn=self.spawn,
            lose=self.lose,
            saved=self._saved,
            orphaned=self._orphan,
            through=self.trials.through,
        )
        self.teller: Teller
        self.dead_letters: DeadLetters

    def connect(self, sender: Sender) -> None:
        """Tells gateways through `sender` from now on."""
        self.teller = Teller(sender, self._topics.results, self._delivered, self._fail, self._unsaid)
        self.dead_letters = DeadLetters(sender, self._topics.dead_letter)

    # what comes

    def receive(self, partition: Partition, record: Record, headers: RecordHeaders, offset: int) -> None:
        """A record of one of our partitions. Raises what it met where it belongs to no session of ours."""
        try:
            self._receive(partition, record, headers, offset)
        except BusUnavailable as error:
            self._fail(error)
        except Exception as error:  # the worker's edge: it costs this session, nothing that comes behind
            session = partition.sessions.get(record.session_id)
            if session is None:
                raise
            self._defect(error, session)

    def _receive(self, partition: Partition, record: Record, headers: RecordHeaders, offset: int) -> None:
        session = partition.sessions.get(record.session_id)
        if session is None:
            if record.session_id in partition.gone:
                self._answer_late(partition, record, headers)
                return
            session = Owned(record.session_id, partition.number, headers.reply_to, headers.trace_id)
            partition.sessions[record.session_id] = self.all[record.session_id] = session
            self.spawn(self._begin(session), session)
        if headers.generation < session.generation:  # of a gateway that has the session no more
            return
        announced = headers.generation > 0 and isinstance(record, SessionOpened)
        if headers.generation > session.generation and not announced:
            self._pass_over_late(partition, session)
        session.heard_at = asyncio.get_running_loop().time()
        session.hears(headers.reply_to, headers.generation)
        session.generation = headers.generation
        if announced:
            session.left = headers.left
            self.teller.tell_moved(session)
        elif isinstance(record, SessionAbandoned):
            self._abandoned(session, record)
        else:
            session.come_bytes = max(session.come_bytes, headers.audio_at + audio_bytes(record))
            if record.index >= session.next_index:
                self._take(partition, session, record, offset)

    def _pass_over_late(self, partition: Partition, session: Owned) -> None:
        """The session's gateway was announced before we began to read, so what came of one before it came too late."""
        if session.opened is not None:
            return
        for record in session.waiting:
            partition.settle(session, audio_bytes(record))
        partition.positions.forget(session.session_id)
        session.waiting.clear()
        session.abandoned, session.next_index, session.come_bytes = None, 0, 0

    def _abandoned(self, session: Owned, record: SessionAbandoned) -> None:
        """Ends the session, unless another gateway has it. Of one that did not begin here the store knows."""
        began_here = bool(session.waiting) and isinstance(session.waiting[0], SessionOpened)
        if session.opened is None and not began_here:
            session.abandoned = record
        elif session.generation >= session.told_generation:
            self.end(session, record)

    def _answer_late(self, partition: Partition, record: Record, headers: RecordHeaders) -> None:
        """A gateway that takes over what is over already is told that no more comes: what was told is in the log."""
        epoch = partition.gone[record.session_id]
        if headers.generation and isinstance(record, SessionOpened) and epoch is not None:
            self.teller.tell_left(record.session_id, epoch, headers.generation, record.trace_id, headers.left)

    def _take(self, partition: Partition, session: Owned, record: Record, offset: int) -> None:
        missing = session.next_index and record.index > session.next_index
        session.next_index = record.index + 1
        partition.positions.keep(session.session_id, record.index, offset)
        if missing:
            self.fail_one(session, BusUnavailable("records of the session are missing in the log"))
        if session.error is not None:
            return
        partition.come(session, audio_bytes(record))
        if session.trying is not None:
            session.trying.append(record)
            self.trials.changed()
        elif session.live:
            self._hand_over(record)
        else:
            session.waiting.append(record)

    def marked(self, partition: Partition, owner: str) -> None:
        """A mark has come; if it is ours, so has all that others could read before."""
        if owner == self.leases.owner:
            partition.read_through = True
            for session in partition.sessions.values():
                session.read_to = session.next_index
            self.trials.changed()

    def _hand_over(self, record: Record) -> None:
        if self.handler is not None and not self.closed:
            self.handler(record)

    async def _begin(self, session: Owned) -> None:
        """Takes the lease of a session whose first record has come, then gives the worker what waited for it."""
        known = await self.leases.know(session)
        if session.over:  # abandoned, or its partition was given away
            await (self.leases.forget(session) if session.ended else self.leases.release([session]))
            return
        if session.abandoned is not None and session.generation >= session.told_generation:
            self.end(session, session.abandoned)
            return
        ends = NO_ENDS if session.lease is None else session.lease.ends
        first = session.waiting[0] if session.waiting else None
        opened = known or (first if isinstance(first, SessionOpened) else None)
        session.opened_saved, session.saved = known is not None, known.checkpoint if known else None
        partition = self.partitions[session.partition]
        if ends.count and not partition.marked:
            self.teller.mark(self._topics.audio, partition.number, self.leases.owner)
            partition.marked = True
            self._steer(partition)
        begin = 1 if opened is None or opened.checkpoint is None else max(1, opened.checkpoint.index)
        gap = first is not None and first.index > begin
        if gap and session.generation < session.told_generation:
            self._pass_over_late(partition, session)
            gap = False
        self.teller.tell_moved(session)
        if session.error is not None:
            self.fail_one(session, session.error)
        elif ends.at is not None and ends.guilty:
            self._quarantine(session, ends.at)
        elif opened is None or gap:
            self.fail_one(session, StoreUnavailable("what a worker needs to go on with the session is gone"))
        else:
            if known is not None or ends.count:
                self.taken_over += 1
                self._took_over(opened)
            tried = to_try(ends)
            self._open(session, opened, begin, alone=tried)
            if tried:
                await self.trials.run(session)
            if not session.over:
                partition.give(session)
                self._steer(partition)

    def _open(self, session: Owned, opened: SessionOpened, begin: int, *, alone: bool) -> None:
        """Goes live with `opened`, which the worker settles like a record, and the records from `begin` on."""
        partition = self.partitions[session.partition]
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
        if partition.read_through and session.read_to is None:
            session.read_to = session.next_index
        self.teller.tell_settled(session)
        self.upkeep.save(session)
        if alone:
            session.trying = deque((opened, *records))
            return
        for record in (opened, *records):
            if session.live:
                self._hand_over(record)

    # what the worker says

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """It has processed a record; the gateway is told soon."""
        session = self.all.get(session_id)
        if session is not None and self.partitions[session.partition].settle(session, size_bytes):
            self.trials.changed()
            self._steer(self.partitions[session.partition])
            self.teller.tell_settled(session)

    def emit(self, event: Emitted) -> None:
        """It tells something of a session; raises BusUnavailable where not even a final can be kept."""
        session = self.all.get(event.session_id)
        if session is None or not session.live or self.closed:
            return
        if isinstance(event, Checkpointed):
            session.checkpoints.append((session.told, event.checkpoint))
            self.upkeep.save(session)
            return
        try:
            self.teller.tell(session, event)
        except TooLarge as error:
            self._unsaid(session, error)

    def _delivered(self, session: Owned) -> None:
        if session.delivered == session.last_told:
            self.end(session, None)
        elif session.checkpoints and session.checkpoints[0][0] <= session.delivered:
            self.upkeep.save(session)

    def _saved(self, session: Owned, checkpoint: Checkpoint) -> None:
        self.partitions[session.partition].positions.drop_before(session.session_id, checkpoint.index)

    # how it ends

    def lose(self, session: Owned) -> None:
        """Another worker has it. Its positions stay as they are: what it needs is not ours to say."""
        if session.over:
            return
        self.lost += 1
        self.abandon(session)
        partition = self.partitions[session.partition]
        partition.let_go(session)
        self._steer(partition)
        self._lost_one(partition)

    def abandon(self, session: Owned, abandoned: SessionAbandoned | None = None) -> None:
        """The worker lets the session go, and nothing more is told of it."""
        session.over = True
        self.all.pop(session.session_id, None)
        self._drop(session, abandoned)

    def end(self, session: Owned, abandoned: SessionAbandoned | None) -> None:
        """The session is over for everybody: its last event is in the log, or nobody wants it any more."""
        if session.over:
            return
        session.ended = True
        partition = self.partitions[session.partition]
        partition.positions.forget(session.session_id)
        partition.let_go(session)
        self._steer(partition)
        self.spawn(self._forget(session, mark=abandoned is None), session)
        self.abandon(session, abandoned)

    async def _forget(self, session: Owned, *, mark: bool) -> None:
        """Marks the end in the log only where the store has said that it was ours to end: whoever reads an abandonment
        obeys it, and one of a worker whose session is another's by then, or was never its own, would end that one's."""
        if await self.leases.forget(session) and mark:
            self.teller.tell_end(session, self._topics.audio)

    def fail_one(self, session: Owned, error: StreamScribeError) -> None:
        """The session cannot go on: the worker lets it go, and its gateway is told why, once it is ours."""
        session.error = session.error or error
        if session.over or session.last_told is not None:
            return
        self._drop(session)
        if session.epoch is not None:
            self.teller.tell(session, Failed(session.session_id, session.error))

    def _drop(self, session: Owned, abandoned: SessionAbandoned | None = None) -> None:
        """Nothing more of it is for the worker."""
        was_live, session.live, session.trying = session.live, False, None
        self.trials.changed()
        if was_live:
            self._hand_over(abandoned or SessionAbandoned(session.session_id, session.next_index))

    def _quarantine(self, session: Owned, index: int) -> None:
        self.quarantined += 1
        offset = self.partitions[session.partition].positions.offset(session.session_id, index)
        where = (self._topics.audio, session.partition, offset)
        error = Quarantined()
        self.dead_letters.write(DeadLetter(*where, session.session_id, session.trace_id, error.message))
        self._quarantines(session.session_id, session.trace_id, index)
        self.fail_one(session, error)

    def _unsaid(self, session: Owned, error: StreamScribeError) -> None:
        """Something cannot be told: nothing can, as its gateway reads a partition that there is not, or this is larger
        than the log takes."""
        if isinstance(error, TooLarge):
            told = {"message": "a session has a result that is larger than the log takes"}
            asyncio.get_running_loop().call_exception_handler(told)
            self.fail_one(session, TooLarge("a result of the session is larger than the service can store"))
        else:
            self.end(session, SessionAbandoned(session.session_id, session.next_index))

    def _orphan(self, session: Owned) -> None:
        self.orphaned += 1
        self.fail_one(session, Timeout("no client came back to the session in time"))

    # edges

    def spawn(self, work: Coroutine[Any, Any, None], session: Owned | None = None) -> None:
        """Runs `work` until it ends; a defect of it fails the session, or without one the whole."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks[task] = session
        task.add_done_callback(self._done)

    async def let_end(self) -> None:
        """Once all sessions are over: their tasks end by themselves, and what they still claim is given back."""
        if ending := [task for task, session in self.tasks.items() if session is not None]:
            await asyncio.wait(ending, timeout=RELEASE_S)

    async def cancel_tasks(self) -> None:
        """Ends what is under way."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        session = self.tasks.pop(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if session is not None and session.epoch is None:
            session.epoch = NO_EPOCH
        self._defect(error, session)

    def _defect(self, error: BaseException, session: Owned | None) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": "a bus has a defect", "exception": error})
        if session is None or isinstance(error, BusUnavailable):
            self._fail(error if isinstance(error, BusUnavailable) else InternalError())
            return
        try:
            self.fail_one(session, InternalError())
        except StreamScribeError as unsent:
            self._fail(unsent)
