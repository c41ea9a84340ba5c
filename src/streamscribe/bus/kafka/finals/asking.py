"""A worker's recogniser that is elsewhere: it asks the finalizers, by the log."""

import asyncio
import zlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import NamedTuple

from confluent_kafka import Message

from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.assigned import at_end
from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.envelope import final_headers
from streamscribe.bus.kafka.finals.codec import hypothesis_of, question
from streamscribe.bus.kafka.finals.tenants import TenantPlaces
from streamscribe.bus.kafka.names import new_name
from streamscribe.bus.kafka.reader import Reader
from streamscribe.bus.kafka.sender import Sender
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import ModelUnavailable, Overloaded, StreamScribeError
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.core.gate import Gate
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.lateness import Waiting, late_tenants
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.models.room import Room
from streamscribe.settings import KafkaSettings
from streamscribe.wire.final_requests import (
    MAX_REQUEST_BYTES,
    FinalAnswer,
    FinalRequest,
    decode_answer,
    encode_request,
)

RETRY_S = 5.0
"""When a client may come back where no finalizer answers."""

FILE_STEPS = 3
"""So many of the model's steps can a worker's files fill in the log at a time: finalizers read it in order, and a live
segment waits for all that were asked before it. The others wait here, where a live one passes them, and tenants take
turns: one that brings many files keeps another's waiting for one place, not for all of its own."""
TENANT_STEPS = 6
"""The same of one tenant's live segments: of each of five workers they are fewer, by default, than a finalizer reads
(`answering.MAX_INSIDE`), so that another tenant's are read at once, and its turn comes."""

Future = asyncio.Future[Hypothesis]


def _is_live(priority: Priority) -> bool:
    return priority < Priority.BULK


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds a segment waits for its answer: a live session's, and a file's, which all others pass."""

    live_s: float
    file_s: float

    def of(self, priority: Priority) -> float:
        """Of one request."""
        return self.live_s if _is_live(priority) else self.file_s


class _Waiting(NamedTuple):
    since_s: float
    session_id: SessionId
    tenant_id: TenantId | None
    for_good: bool
    """It has no other text to be told."""


class Finalizers:
    """`models.stage.Stage` of whole segments, and its only part: requests go into the log, answers come out of it.

    A request is answered once: what comes again, or for another worker, is dropped. Answers come to a partition of
    `final-results` that this worker reads, so that they never wait behind the audio of sessions that wait for them.
    One that nobody answers in time fails with ModelUnavailable, one that the log does not take with BusUnavailable.
    Drafts are refused: they would be late. For one event loop.
    """

    name = "finalizers"
    warmup_s = 0.0

    def __init__(self, kafka: KafkaSettings, policy: BatchPolicy, patience: Patience) -> None:
        """`policy` bounds what is asked at a time: `max_inflight` requests, `max_waiting_s` of audio; of files, and of
        each tenant, what fills a few steps.

        Call `connect` before anything else.
        """
        self.policy = policy
        self.population = 0
        self._kafka = kafka
        self._patience = patience
        self._topics = Topics.of(kafka)
        self.asker = new_name()
        """What this worker is called in its requests: no other has the name."""
        self._reply_to = zlib.crc32(self.asker.encode()) % kafka.audio_partitions
        self._gate = Gate(policy.max_inflight, policy.max_waiting_s)
        self._tenants = TenantPlaces(TENANT_STEPS * policy.max_batch_size, TENANT_STEPS * policy.max_batch_s)
        self._files = 0
        self._room = Room()
        self._roomy = asyncio.Event()
        self._asked: dict[int, Future] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = count()
        self._sender: Sender
        self._reader: Reader
        self._dead_letters: DeadLetters
        self._closed = False
        self.answered = 0
        self.timed_out = 0
        self.dropped = 0
        """Answers that came again, or too late."""

    async def connect(self) -> None:
        """Raises BusUnavailable where no broker answers, SettingsError where the topics are not as set."""
        await asyncio.to_thread(topics.check, self._kafka)
        self._sender = Sender(config.producer(self._kafka, MAX_REQUEST_BYTES, patient=False))
        self._sender.on_room = self._roomy.set
        self._dead_letters = DeadLetters(self._sender, self._topics.dead_letter)
        consumer, end = await asyncio.to_thread(
            at_end, self._kafka, topics.FINAL_RESULTS_GROUP, self._topics.finals, self._reply_to, MAX_REQUEST_BYTES
        )
        self._reader = Reader(consumer, self._take)
        self._reader.gaps.begin((self._topics.finals, self._reply_to), end)
        self._reader.start()

    async def disconnect(self) -> None:
        """Fails what was not answered."""
        self._closed = True
        self._fail_all(ModelUnavailable("the worker is shutting down"))
        await self._reader.stop()
        await self._sender.close()

    async def failed(self) -> StreamScribeError:
        """Returns when answers cannot be read any more: only a new start helps."""
        return await asyncio.shield(self._reader.failed)

    async def submit(
        self,
        request: SegmentRequest,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        patient: bool = False,
    ) -> Hypothesis:
        """What a finalizer heard; see the class and `Stage.submit`. Raises what the request itself is to blame for."""
        if request.draft:
            raise Overloaded("finalizers hear whole segments only", retry_after_s=RETRY_S)
        with self._counted(priority, request):
            if not _is_live(priority):
                return await self._ask_inside(request, priority, audio_s, share, patient=patient)
            async with self._tenants.place(share.tenant, audio_s, patient=patient):
                return await self._ask_inside(request, priority, audio_s, share, patient=patient)

    async def _ask_inside(
        self, request: SegmentRequest, priority: Priority, audio_s: float, share: Share, *, patient: bool
    ) -> Hypothesis:
        enter = partial(self._enter, priority, audio_s)
        if patient:
            await self._room.enter(priority, enter, share.tenant)
        else:
            enter()
        try:
            return await self._ask(request, priority, share)
        finally:
            self._files -= not _is_live(priority)
            self._gate.leave(audio_s)
            self._room.freed()

    @contextmanager
    def _counted(self, priority: Priority, request: SegmentRequest) -> Iterator[None]:
        number = next(self._numbers)
        if _is_live(priority) and request.origin is not None:
            began, for_good = asyncio.get_running_loop().time(), request.within_s is None
            self._waiting[number] = _Waiting(began, request.origin.session_id, request.tenant_id, for_good)
        try:
            yield
        finally:
            self._waiting.pop(number, None)

    def lag_s(self, now: float) -> float:
        """How long the oldest segment of a live session has waited, of those that have no other text to be told.

        `now` by the event loop's clock.
        """
        return now - next((one.since_s for one in self._waiting.values() if one.for_good), now)

    def late(self, now: float, bound_s: float) -> frozenset[TenantId]:
        """The tenants of whose live segments more of such than a few have waited longer than that."""
        return late_tenants(
            Waiting(one.tenant_id, one.session_id, one.for_good and now - one.since_s > bound_s)
            for one in self._waiting.values()
            if one.tenant_id is not None
        )

    def _enter(self, priority: Priority, audio_s: float) -> None:
        is_file = not _is_live(priority)
        if is_file and self._files >= FILE_STEPS * self.policy.max_batch_size:
            raise Overloaded("finalizers have enough segments of files", retry_after_s=RETRY_S)
        if overloaded := self._gate.enter(priority, audio_s):
            raise overloaded
        self._files += is_file

    async def _ask(self, request: SegmentRequest, priority: Priority, share: Share) -> Hypothesis:
        number = next(self._numbers)
        asked, value = await asyncio.to_thread(self._encoded, request, priority, share, number)
        try:
            async with asyncio.timeout(self._patience.of(priority)):
                return await self._answer_to(asked, value)
        except TimeoutError:
            self.timed_out += 1
            raise ModelUnavailable("no finalizer has answered in time", retry_after_s=RETRY_S) from None

    async def _answer_to(self, asked: FinalRequest, value: bytes) -> Hypothesis:
        while not self._sender.room:  # the brokers do not keep up
            self._roomy.clear()
            await self._roomy.wait()
        if self._closed:
            raise ModelUnavailable("the worker is shutting down")
        answer: Future = asyncio.get_running_loop().create_future()
        self._asked[asked.number] = answer
        headers, key = final_headers(asked.trace_id), asked.session_id
        try:
            self._sender.send(self._topics.finalize, value, headers, partial(_unless_taken, answer), key=key)
            return await answer
        finally:
            del self._asked[asked.number]

    def _encoded(
        self, request: SegmentRequest, priority: Priority, share: Share, number: int
    ) -> tuple[FinalRequest, bytes]:
        asked = question(
            request,
            priority=priority,
            share=share,
            asked_by=self.asker,
            number=number,
            reply_to=self._reply_to,
            patience_ms=round(1000 * min(self._patience.of(priority), request.within_s or inf)),
        )
        return asked, encode_request(asked)

    def _take(self, batch: list[Message]) -> None:
        self._dead_letters.take_each(batch, self._take_one)

    def _take_one(self, message: Message) -> None:
        """Raises BadRequest for what nobody can read."""
        answer = decode_answer(message.value() or b"")
        if answer.asked_by == self.asker:
            self._settle(answer)

    def _settle(self, answer: FinalAnswer) -> None:
        waiting = self._asked.get(answer.number)
        if waiting is None or waiting.done():
            self.dropped += 1
        elif answer.heard is not None:
            self.answered += 1
            waiting.set_result(hypothesis_of(answer.heard))
        elif answer.error is not None:
            self.answered += 1
            waiting.set_exception(answer.error)

    def _fail_all(self, error: StreamScribeError) -> None:
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(error)

    # as a part of a worker's models

    @property
    def parts(self) -> "tuple[Finalizers, ...]":
        """Itself."""
        return (self,)

    @property
    def ready(self) -> bool:
        """Whether answers are read. Whether a finalizer is there to give them, nobody knows before one does."""
        return not self._reader.failed.done()

    @property
    def inflight(self) -> int:
        """Requests that are not answered."""
        return self._gate.requests

    def start(self) -> None:
        """There is nothing to warm."""

    def wait_ready(self) -> None:
        """At once: it is connected before it is anybody's part."""

    def outage(self) -> ModelUnavailable | None:
        """None: what is asked waits for a finalizer to come."""
        return None

    def fail_if_stalled(self) -> None:
        """Each request has its own time-out."""

    def close(self) -> None:
        """Is `disconnect`'s."""

    def check_integrity(self) -> None:
        """Whoever waits for an answer is inside."""
        self._gate.check_integrity()
        self._tenants.check_integrity()
        ensure(len(self._asked) <= self._gate.requests, "asked <= inside")
        ensure(0 <= self._files <= self._gate.requests, "files <= inside")
        since = [one.since_s for one in self._waiting.values()]
        ensure(since == sorted(since), "the oldest is first")


def _unless_taken(answer: Future, error: StreamScribeError | None) -> None:
    """A request that is not in the log gets no answer."""
    if error is not None and not answer.done():
        answer.set_exception(error)
