"""A log of records in virtual time: what the Kafka bus' ends speak to in place of librdkafka.

It keeps what a cluster promises: records of one sender and partition are in order, each once. So are they read, but for
those that some runs' brokers show late, store twice, or give again. Everything takes a random time. Its group of
readers is in `group`.
"""

import asyncio
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME

from streamscribe.bus.kafka.gaps import Gaps
from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.bus.kafka.sender import Sender
from streamscribe.core.errors import BusUnavailable, StreamScribeError
from tests.sim.clock import Node
from tests.sim.network import Delay

MAX_UNSENT_BYTES = 2**18
"""Less than `sender.MAX_UNSENT_BYTES`, so that it is met."""

MAX_AGAIN = 20
"""Records that are given again at a time."""

LATE_S = 0.3
"""Within which a record shows itself at the latest."""


@dataclass(frozen=True, slots=True)
class Message:
    """A record as confluent-kafka gives it."""

    where: tuple[str, int, int]
    key_bytes: bytes | None
    value_bytes: bytes
    its_headers: list[tuple[str, Any]]
    sent_s: float = 0.0

    def __len__(self) -> int:
        return len(self.value_bytes)

    def topic(self) -> str:
        return self.where[0]

    def partition(self) -> int:
        return self.where[1]

    def offset(self) -> int:
        return self.where[2]

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes:
        return self.value_bytes

    def headers(self) -> list[tuple[str, Any]]:
        return self.its_headers

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, round(1000 * self.sent_s)

    def error(self) -> None:
        """None: it is a record."""


class Broker:
    """All partitions, so many of each topic, and what the group of each topic committed."""

    def __init__(self, rng: random.Random, partitions: int) -> None:
        self.rng = rng
        self.partitions = partitions
        self.delay = Delay(rng, 0.01, slow=0.02, slow_s=0.4)
        self.away_until = 0.0
        """Nobody is answered before."""
        self.committed: dict[tuple[str, int], int] = {}
        self.late_share = 0.0
        """Of records that show themselves only after others behind them, some time later."""
        self.twice_share = 0.0
        """Of senders' requests that are stored twice, and of readers' batches of which some is given again."""
        self.met: Counter[str] = Counter()
        """What of all that was met."""
        self._late = random.Random(partitions)
        self._twice = random.Random(partitions)
        self._shown_at: dict[tuple[str, int, int], float] = {}
        self._clock = asyncio.get_running_loop().time
        self._logs: dict[tuple[str, int], list[Message]] = defaultdict(list)
        self._readers: dict[tuple[str, int], dict[asyncio.Event, None]] = defaultdict(dict)

    async def answers(self) -> None:
        """Returns when it is there."""
        loop = asyncio.get_running_loop()
        while loop.time() < self.away_until:
            await asyncio.sleep(self.away_until - loop.time() + self.rng.uniform(0, 0.3))

    def append(
        self, topic: str, partition: int, key: str | None, value: bytes, headers: Any, sent_s: float = 0.0
    ) -> int:
        """One more record; its key decides where there is no partition. Gives the partition."""
        if partition < 0:
            partition = partition_of(key or "", self.partitions)
        log = self._logs[topic, partition]
        where = (topic, partition, len(log))
        if self.late_share and self._late.random() < self.late_share:
            self._shown_at[where] = self._clock() + self._late.uniform(0, LATE_S)
            self.met["shown late"] += 1
        log.append(Message(where, None if key is None else key.encode(), value, headers, sent_s))
        for event in self._readers[topic, partition]:
            event.set()
        return partition

    def end(self, topic: str, partition: int) -> int:
        """The offset of the next record."""
        return len(self._logs[topic, partition])

    def read(self, topic: str, partition: int, offset: int, most: int) -> list[Message]:
        """Those that show themselves, from an offset on."""
        found = self._logs[topic, partition][offset : offset + most]
        if not self._shown_at:
            return found
        now = self._clock()
        return [one for one in found if self._shown_at.get(one.where, 0.0) <= now]

    def stores_twice(self) -> bool:
        """Whether a sender's request is: its first answer was lost."""
        return self.twice_share > 0 and self._twice.random() < self.twice_share

    def goes_on(self, at: int, begun: int) -> int:
        """Where a reader goes on that has read from `begun` up to `at`: there, or a little further back."""
        if at == begun or not self.stores_twice():
            return at
        again = self._twice.randrange(1, min(at - begun, MAX_AGAIN) + 1)
        self.met["given again"] += again
        return at - again

    def watch(self, topic: str, partition: int, event: asyncio.Event) -> None:
        """Sets the event with each new record."""
        self._readers[topic, partition][event] = None


class SimSender:
    """As `bus.kafka.sender.Sender`."""

    def __init__(self, broker: Broker, node: Node) -> None:
        self.on_room: Callable[[], None] = lambda: None
        self.unsent_bytes = 0
        self.delivered_to: dict[tuple[str, int], int] = {}
        self._loop = asyncio.get_running_loop()
        self._broker = broker
        self._queue: deque[tuple[tuple[str, int, str | None, bytes, Any, float], Callable[..., None]]] = deque()
        self._reports: deque[tuple[Callable[..., None], int, float, tuple[str, int], int]] = deque()
        self._wake = asyncio.Event()
        self._report_wake = asyncio.Event()
        self._full = self._failed = False
        self.dead = False
        """Its process is: nothing leaves it any more."""
        self.held_until = 0.0
        """Those that lead its partitions are away until then."""
        self._tasks = [node.spawn(self._send()), node.spawn(self._report())]

    @property
    def room(self) -> bool:
        return not self._full

    def send(
        self,
        topic: str,
        value: bytes,
        headers: Any,
        done: Callable[[StreamScribeError | None], None],
        *,
        key: str | None = None,
        partition: int = -1,
    ) -> None:
        if self._failed:
            raise BusUnavailable
        self._queue.append(((topic, partition, key, value, headers, self._loop.time()), done))
        self.unsent_bytes += len(value)
        self._full = self._full or self.unsent_bytes >= MAX_UNSENT_BYTES
        self._wake.set()

    async def put(self, topic: str, value: bytes, headers: Any, *, key: str | None = None, partition: int = -1) -> None:
        sender: Any = self
        await Sender.put(sender, topic, value, headers, key=key, partition=partition)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await asyncio.sleep(self._broker.delay())
                await self._broker.answers()
                while loop.time() < self.held_until:
                    await asyncio.sleep(self.held_until - loop.time() + 0.001)
                most = 0 if self.dead else self._broker.rng.randrange(1, 20)
                request = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
                if self._broker.stores_twice():
                    self._broker.met["stored twice"] += len(request)
                    for record, _ in request:
                        self._broker.append(*record)
                for record, done in request:
                    where = record[0], self._broker.append(*record)
                    at = loop.time() + self._broker.delay()
                    self._reports.append((done, len(record[3]), at, where, self._broker.end(*where)))
                self._report_wake.set()

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._report_wake.wait()
            self._report_wake.clear()
            while self._reports:
                await asyncio.sleep(self._reports[0][2] - loop.time())
                done, size, _, where, behind = self._reports.popleft()
                if not self.dead:
                    self.delivered_to[where] = behind
                    self._sent(done, size, None)

    def _sent(self, done: Callable[..., None], size: int, error: StreamScribeError | None) -> None:
        self.unsent_bytes -= size
        done(error)
        if self._full and self.unsent_bytes <= MAX_UNSENT_BYTES // 2:
            self._full = False
            self.on_room()

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                while self._queue or self._reports:
                    await asyncio.sleep(0.05)
        await self.kill()
        for (_, _, _, value, _, _), done in self._queue:
            self._sent(done, len(value), BusUnavailable())

    async def kill(self) -> None:
        """Nothing more is sent, and nothing told."""
        await cancel_all(self._tasks)

    async def fail(self) -> None:
        """The same, and whoever waits in what is left of its process is let go."""
        self.dead = self._failed = True
        await self.kill()
        waiting = [*(done for _, done in self._queue), *(done for done, *_ in self._reports)]
        self._queue.clear()
        self._reports.clear()
        for done in waiting:
            done(BusUnavailable())


class SimReader:
    """As `bus.kafka.reader.Reader` of one partition, from its end on."""

    def __init__(self, broker: Broker, node: Node, topic: str, partition: int, take: Callable[..., None]) -> None:
        self.failed: asyncio.Future[BusUnavailable] = asyncio.get_running_loop().create_future()
        self._broker = broker
        self._where = topic, partition
        self._at = self._begun = broker.end(topic, partition)
        self._take = take
        self.gaps = Gaps(asyncio.get_running_loop().time)
        self.gaps.begin(self._where, self._at)
        self._wake = asyncio.Event()
        broker.watch(topic, partition, self._wake)
        self._task = node.spawn(self._run())

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(self._broker.delay())
            await self._broker.answers()
            while True:
                batch = self._broker.read(*self._where, self._at, self._broker.rng.randrange(1, 50))
                if not batch and self._at == self._broker.end(*self._where):
                    break
                taken, self._at = in_turn(self.gaps, self._where, batch, self._at)
                if taken:
                    self._take(taken)
                    self._at = self._broker.goes_on(self._at, self._begun)
                await asyncio.sleep(0 if taken else self._broker.delay())

    async def stop(self) -> None:
        await cancel_all([self._task])


def in_turn(gaps: Gaps, where: tuple[str, int], batch: list[Message], at: int) -> tuple[list[Message], int]:
    """What is taken of a batch, and where the partition is read on, as `bus.kafka.reader.Reader` has it."""
    taken = [message for message in batch if gaps.takes(where, message.offset())]
    at = batch[-1].offset() + 1 if batch else at
    at = gaps.behind().get(where, at)
    gaps.gone_back(where)
    return taken, at


async def cancel_all(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
