"""A finalizer's end of the log: requests of its group's partitions in, answers out."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.ends import Ends
from streamscribe.bus.kafka.envelope import final_headers, read_key
from streamscribe.bus.kafka.finals.codec import heard_of, read_question
from streamscribe.bus.kafka.finals.known import Answer, Known, Purges
from streamscribe.bus.kafka.finals.ledger import Ledger
from streamscribe.bus.kafka.finals.trying import Attempts, Trying
from streamscribe.bus.kafka.membership import Membership, OnPartitions
from streamscribe.bus.kafka.names import new_name
from streamscribe.bus.kafka.sender import Sender
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.batching import Priority
from streamscribe.core.errors import BadRequest, BusUnavailable, Quarantined, StreamScribeError
from streamscribe.core.fair_share import Share
from streamscribe.core.integrity import ensure
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.settings import KafkaSettings
from streamscribe.wire.final_requests import MAX_REQUEST_BYTES, FinalAnswer, FinalRequest, encode_answer

MAX_INSIDE, MAX_INSIDE_BYTES = 256, 2**26
"""Requests that are not answered, beyond which no more are read; reading goes on at half."""

COMMIT_INTERVAL_S = 0.5
LOOK_INTERVAL_S = 1.0
"""How often the brokers are asked how much there is to read."""
GRACE_S = 1.5
"""How long a partition that goes to another finalizer waits for what of it is in work; less than a rebalance waits."""
CLOCKS_S = 2.0
"""How far the clocks of workers and finalizers may differ. A request may have waited so much longer in the log, which
two clocks tell; how long it waits here, one does."""
SMOOTHING = 0.05
"""What the newest request counts in the moving mean of lengths."""

Recognise = Callable[[SegmentRequest, Priority, float, Share], Awaitable[Hypothesis]]
"""What was heard in so many seconds. Raises StreamScribeError for what the request is to blame for, and anything else
where this finalizer can hear nothing any more; the cause of that says why."""


class KafkaFinalizer:
    """A member of the group on `offline-finalize`, which it joins when a recogniser is attached.

    A request is committed once its answer is in the log, on all replicas: one that dies between the two leaves it to
    another, so an answer may come twice, and a request never gets none. Equal requests for a segment are heard once
    (`Known`); what nobody waits for any more is passed over; what ends finalizers is given up (`Trying`) and, like what
    cannot be read, named in the dead-letter topic. Not thread-safe.
    """

    def __init__(
        self, kafka: KafkaSettings, attempts: Attempts, purges: Purges, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` tells seconds since the epoch, as workers write them. Call `start` before anything else."""
        self.name = new_name()
        """What this finalizer is called: no other has the name."""
        self._kafka = kafka
        self._topics = Topics.of(kafka)
        self._trying = Trying(attempts, self.name)
        self._known = Known(purges)
        self._clock = clock
        self._recognise: Recognise | None = None
        self._ledgers: dict[int, Ledger] = {}
        self._tasks: dict[asyncio.Task[None], Ledger | None] = {}
        self._inside = self._inside_bytes = 0
        self._paused = self._leaving = False
        self._ends: dict[int, int] = {}
        self._mean_s = 0.0
        self._sender: Sender
        self._membership: Membership
        self._dead_letters: DeadLetters
        self.answered = self.expired = 0
        self.on_partitions: OnPartitions = lambda what, numbers: None
        """Told what becomes of its partitions; also of no partitions."""

    async def start(self) -> None:
        """Connects. Raises BusUnavailable where no broker answers, SettingsError where the topics are not as set."""
        await asyncio.to_thread(topics.check, self._kafka)
        self._sender = Sender(config.producer(self._kafka, MAX_REQUEST_BYTES, patient=True))
        self._dead_letters = DeadLetters(self._sender, self._topics.dead_letter)
        self._membership = Membership(
            config.member(self._kafka, topics.FINALIZE_GROUP, MAX_REQUEST_BYTES),
            self._topics.finalize,
            take=self._take,
            assigned=self._assigned,
            give_up=self._give_up,
            lost=self._lost,
        )

    def attach(self, recognise: Recognise) -> None:
        """Joins the group."""
        self._recognise = recognise
        self._membership.join()
        self._spawn(self._commit(), None)
        self._spawn(self._look(), None)

    @property
    def joined(self) -> asyncio.Event:
        """Set while the group has given it its share of the partitions: none, where others have them all."""
        return self._membership.joined

    @property
    def partitions(self) -> frozenset[int]:
        """Those that this finalizer has now."""
        return frozenset(self._ledgers)

    @property
    def dead_letters(self) -> int:
        """Requests that could not be read, or were given up."""
        return self._dead_letters.count

    @property
    def repeated(self) -> int:
        """Requests that were answered without being heard again."""
        return self._known.repeated

    @property
    def waiting(self) -> int:
        """Requests of its partitions that are not answered, read or not."""
        read = {ledger.number: ledger.next for ledger in self._ledgers.values() if ledger.next is not None}
        unread = sum(max(0, self._ends.get(number, 0) - at) for number, at in read.items())
        return self._inside + unread

    @property
    def waiting_s(self) -> float:
        """The seconds of audio that they have: of those not read yet, as many as others had."""
        return self.waiting * self._mean_s

    @property
    def oldest_s(self) -> float:
        """How long the oldest request that was read has waited; 0 where none waits."""
        oldest = [at for ledger in self._ledgers.values() if (at := ledger.oldest_s) is not None]
        return max(0.0, self._clock() - min(oldest)) if oldest else 0.0

    async def failed(self) -> StreamScribeError:
        """Returns when the process is of no use any more, and others must take over: the model's error where that has
        stopped, InternalError for a defect."""
        return await asyncio.shield(self._membership.failed)

    async def check(self) -> None:
        """Returns when the brokers answer and have our topics; raises BusUnavailable."""
        await self._sender.check(self._topics.names)

    async def close(self, drain_s: float = 0.0) -> None:
        """Reads no more, answers what it has within `drain_s`, and leaves the group; the rest is for the others."""
        if self._leaving:
            return
        self._leaving = True
        for number in self._ledgers:
            self._membership.pause(number)
        if (working := self._working(self._ledgers.values())) and drain_s:
            await asyncio.wait(working, timeout=drain_s)
        if self._recognise is not None:
            await self._membership.leave()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._sender.close()

    def check_integrity(self) -> None:
        """What is open in the partitions is inside."""
        for ledger in self._ledgers.values():
            ledger.check_integrity()
        ensure(sum(len(ledger.open) for ledger in self._ledgers.values()) <= self._inside, "open <= inside")
        ensure(self._inside >= 0 and self._inside_bytes >= 0, "nobody leaves twice")

    # requests

    def _take(self, batch: list[Message]) -> None:
        for message in batch:
            ledger = self._ledgers.get(message.partition() or 0)
            if ledger is None or self._leaving or self._membership.failed.done():
                continue
            if not ledger.come(message.offset() or 0, self._asked_at_s(message)):
                continue
            self._inside += 1
            self._inside_bytes += len(message)
            serving = self._spawn(self._serve(message, ledger), ledger)
            serving.add_done_callback(partial(self._out, len(message)))
        self._steer()

    def _out(self, size: int, serving: asyncio.Task[None]) -> None:
        """Also of one that was cancelled before it began, in which nothing runs."""
        self._inside -= 1
        self._inside_bytes -= size
        self._steer()

    def _asked_at_s(self, message: Message) -> float:
        """By the worker's clock; now, where nobody has written it."""
        kind, at_ms = message.timestamp()
        return self._clock() if kind == TIMESTAMP_NOT_AVAILABLE else at_ms / 1000

    async def _serve(self, message: Message, ledger: Ledger) -> None:
        offset = message.offset() or 0
        answer = await self._answer(message, ledger.open[offset])
        if answer is not None:
            await self._tell(*answer)
        ledger.over(offset)

    async def _answer(self, message: Message, asked_at_s: float) -> tuple[FinalRequest, Answer] | None:
        """None where nobody waits."""
        try:
            asked, request = await asyncio.to_thread(read_question, message.value() or b"")
            if asked.session_id != read_key(message.key()):
                raise BadRequest("the key must be the request's session", field="key")
            if not 0 <= asked.reply_to < self._kafka.audio_partitions:
                raise BadRequest(f"the partition must be one of {self._kafka.audio_partitions}", field="reply_to")
        except Exception as error:  # noqa: BLE001 - the process' edge: a request that nobody can read costs itself alone
            self._dead_letters.bury(message, error)
            return None
        self._mean_s += (asked.samples / SAMPLE_RATE - self._mean_s) * (SMOOTHING if self._mean_s else 1.0)
        in_log_s = max(0.0, self._clock() - asked_at_s - CLOCKS_S)
        left_s, now = asked.patience_ms / 1000 - in_log_s, asyncio.get_running_loop().time()
        answer: Answer | None = None
        try:
            if left_s > 0:
                answer = await self._known.answer(asked, lambda: self._hear(asked, request), now + left_s)
        except Quarantined as error:
            self._dead_letters.bury(message, error)
            answer = error
        if answer is None:
            self.expired += 1
            return None
        return asked, answer

    async def _hear(self, asked: FinalRequest, request: SegmentRequest) -> Answer:
        if self._recognise is None:
            raise AssertionError("requests come when the group was joined")
        priority = Priority.URGENT if asked.live else Priority.BULK
        share = Share(asked.tenant_id, asked.weight)
        async with self._trying.one(asked.session_id, asked.segment_id):
            try:
                return heard_of(await self._recognise(request, priority, asked.samples / SAMPLE_RATE, share))
            except StreamScribeError as error:
                return error

    async def _tell(self, asked: FinalRequest, found: Answer) -> None:
        """Returns when the answer is in the log."""
        session_id, asked_by, number = asked.session_id, asked.asked_by, asked.number
        if isinstance(found, StreamScribeError):
            answer = FinalAnswer(session_id, asked_by, number, error=found)
        else:
            answer = FinalAnswer(session_id, asked_by, number, heard=found)
        headers = final_headers(asked.trace_id)
        topic, partition = self._topics.finals, asked.reply_to
        with suppress(config.NoSuchPartition):  # then nobody reads there
            await self._sender.put(topic, encode_answer(answer), headers, key=session_id, partition=partition)
        self.answered += 1

    def _steer(self) -> None:
        """Back-pressure: what is read and not answered is bounded."""
        load = max(self._inside / MAX_INSIDE, self._inside_bytes / MAX_INSIDE_BYTES)
        paused = load >= (0.5 if self._paused else 1.0)
        if paused != self._paused and not self._leaving:
            self._paused = paused
            change = self._membership.pause if paused else self._membership.resume
            for number in self._ledgers:
                change(number)

    # partitions

    def _assigned(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._ledgers[number] = Ledger(number)
            change = self._membership.pause if self._paused or self._leaving else self._membership.resume
            change(number)
        self.on_partitions("assigned", numbers)

    async def _give_up(self, numbers: Collection[int]) -> dict[int, int]:
        """What is in work has a moment to end; the rest is begun anew by another."""
        self.on_partitions("revoked", numbers)
        ledgers = [self._ledgers.pop(number) for number in numbers if number in self._ledgers]
        if working := self._working(ledgers):
            await asyncio.wait(working, timeout=GRACE_S)
        self._cancel(ledgers)
        return _committable(ledgers)

    def _lost(self, numbers: Collection[int]) -> None:
        self.on_partitions("lost", numbers)
        self._cancel([self._ledgers.pop(number) for number in numbers if number in self._ledgers])

    def _working(self, ledgers: Collection[Ledger]) -> list[asyncio.Task[None]]:
        return [task for task, ledger in self._tasks.items() if any(ledger is one for one in ledgers)]

    def _cancel(self, ledgers: Collection[Ledger]) -> None:
        for task in self._working(ledgers):
            task.cancel()

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_INTERVAL_S)
            self._membership.commit(_committable(self._ledgers.values()))

    async def _look(self) -> None:
        ends = Ends(self._kafka, self._topics.finalize)
        while True:
            self._known.sweep()
            with suppress(BusUnavailable):  # what was known then is as good as anything
                self._ends = await asyncio.to_thread(ends.of, self.partitions)
            await asyncio.sleep(LOOK_INTERVAL_S)

    # edges

    def _spawn(self, work: Coroutine[Any, Any, None], ledger: Ledger | None) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = ledger
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if task.cancelled() or (error := task.exception()) is None:
            return
        asyncio.get_running_loop().call_exception_handler({"message": "a finalizer has stopped", "exception": error})
        if not self._membership.failed.done():
            self._membership.failed.set_result(config.fatal(error))


def _committable(ledgers: Collection[Ledger]) -> dict[int, int]:
    found = {ledger.number: ledger.committable for ledger in ledgers}
    return {number: offset for number, offset in found.items() if offset is not None}
