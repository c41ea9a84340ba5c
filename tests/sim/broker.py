"""A log of records with a group of readers, in virtual time: what the Kafka bus' ends speak to in place of librdkafka.

It keeps what a cluster promises: records of one sender and partition in order, each once; a reader gets them in order
from where its group committed; a member that is silent for its session timeout loses its partitions, and finds out
when it speaks again. Everything takes a random time.
"""

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from streamscribe.core.errors import BusUnavailable, StreamScribeError
from tests.sim.clock import Node
from tests.sim.network import Delay

SESSION_TIMEOUT_S = 2.0
GIVE_UP_S = 2.0
MAX_UNSENT_BYTES = 2**18
"""Less than `sender.MAX_UNSENT_BYTES`, so that it is met."""

BEAT_S = 0.15


@dataclass(frozen=True, slots=True)
class Message:
    """A record as confluent-kafka gives it."""

    where: tuple[str, int, int]
    key_bytes: bytes | None
    value_bytes: bytes
    its_headers: list[tuple[str, Any]]

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


class Broker:
    """All partitions, and what the group committed."""

    def __init__(self, rng: random.Random, partitions: int) -> None:
        self.rng = rng
        self.partitions = partitions
        self.delay = Delay(rng, 0.01, slow=0.02, slow_s=0.4)
        self.away_until = 0.0
        """Nobody is answered before."""
        self.committed: dict[int, int] = {}
        self._of_key: dict[str, int] = {}  # not a hash: keys have ids in them that no seed decides
        self._logs: dict[tuple[str, int], list[Message]] = defaultdict(list)
        self._readers: dict[tuple[str, int], dict[asyncio.Event, None]] = defaultdict(dict)

    async def answers(self) -> None:
        """Returns when it is there."""
        loop = asyncio.get_running_loop()
        while loop.time() < self.away_until:
            await asyncio.sleep(self.away_until - loop.time() + self.rng.uniform(0, 0.3))

    def append(self, topic: str, partition: int, key: str | None, value: bytes, headers: Any) -> None:
        """One more record; its key decides where there is no partition."""
        if partition < 0:
            partition = self._of_key.setdefault(key or "", self.rng.randrange(self.partitions))
        log = self._logs[topic, partition]
        where = (topic, partition, len(log))
        log.append(Message(where, None if key is None else key.encode(), value, headers))
        for event in self._readers[topic, partition]:
            event.set()

    def end(self, topic: str, partition: int) -> int:
        """The offset of the next record."""
        return len(self._logs[topic, partition])

    def read(self, topic: str, partition: int, offset: int, most: int) -> list[Message]:
        """Records from an offset on."""
        return self._logs[topic, partition][offset : offset + most]

    def watch(self, topic: str, partition: int, event: asyncio.Event) -> None:
        """Sets the event with each new record."""
        self._readers[topic, partition][event] = None


class SimSender:
    """As `bus.kafka.sender.Sender`."""

    def __init__(self, broker: Broker, node: Node) -> None:
        self.on_room: Callable[[], None] = lambda: None
        self.unsent_bytes = 0
        self._broker = broker
        self._queue: deque[tuple[tuple[str, int, str | None, bytes, Any], Callable[..., None]]] = deque()
        self._reports: deque[tuple[Callable[..., None], int, float]] = deque()
        self._wake = asyncio.Event()
        self._report_wake = asyncio.Event()
        self._full = False
        self.dead = False
        """Its process is: nothing leaves it any more."""
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
        self._queue.append(((topic, partition, key, value, headers), done))
        self.unsent_bytes += len(value)
        self._full = self._full or self.unsent_bytes >= MAX_UNSENT_BYTES
        self._wake.set()

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await asyncio.sleep(self._broker.delay())
                await self._broker.answers()
                for _ in range(self._broker.rng.randrange(1, 20)):  # what shares a request
                    if self._queue and not self.dead:
                        (topic, partition, key, value, headers), done = self._queue.popleft()
                        self._broker.append(topic, partition, key, value, headers)
                        self._reports.append((done, len(value), loop.time() + self._broker.delay()))
                self._report_wake.set()

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._report_wake.wait()
            self._report_wake.clear()
            while self._reports:
                await asyncio.sleep(self._reports[0][2] - loop.time())
                done, size, _ = self._reports.popleft()
                if not self.dead:
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
        for (_, _, _, value, _), done in self._queue:
            self._sent(done, len(value), BusUnavailable())

    async def kill(self) -> None:
        """Nothing more is sent, and nothing told."""
        await _cancel(self._tasks)


class SimReader:
    """As `bus.kafka.reader.Reader` of one partition, from its end on."""

    def __init__(self, broker: Broker, node: Node, topic: str, partition: int, take: Callable[..., None]) -> None:
        self.failed: asyncio.Future[BusUnavailable] = asyncio.get_running_loop().create_future()
        self._broker = broker
        self._where = topic, partition
        self._at = broker.end(topic, partition)
        self._take = take
        self._wake = asyncio.Event()
        broker.watch(topic, partition, self._wake)
        self._task = node.spawn(self._run())

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(self._broker.delay())
            await self._broker.answers()
            while batch := self._broker.read(*self._where, self._at, self._broker.rng.randrange(1, 50)):
                self._at += len(batch)
                self._take(batch)
                await asyncio.sleep(0)

    async def stop(self) -> None:
        await _cancel([self._task])


class Group:
    """The coordinator of the readers of one topic: who has which partitions."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.members: list[SimMembership] = []
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def change(self) -> None:
        """Somebody came or went."""
        self._changed.set()

    async def close(self) -> None:
        await _cancel([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._changed.wait()
            await self.broker.answers()
            changed = self._changed.is_set()
            self._changed.clear()
            for member in list(self.members):
                if member.silent_here_s() > SESSION_TIMEOUT_S:
                    self.members.remove(member)
                    member.evicted = True
                    changed = True
            if changed:
                await self._rebalance()

    async def _rebalance(self) -> None:
        members = list(self.members)
        if not members:
            return
        owners = {number: member for member in members for number in member.owned}
        fair = -(-self.broker.partitions // len(members))
        kept = {member: sorted(member.owned)[:fair] for member in members}
        moving = {member: sorted(member.owned - set(kept[member])) for member in members}
        for member, numbers in moving.items():
            if numbers:
                await member.revoke(numbers)
        members = [member for member in self.members if not member.evicted]
        if set(members) != set(kept):
            self._changed.set()  # it begins anew
            return
        free = [n for n in range(self.broker.partitions) if n not in owners or n in moving[owners[n]]]
        for number in free:
            member = min(members, key=lambda one: len(kept[one]))
            kept[member].append(number)
        for member in members:
            member.assign([number for number in kept[member] if number not in member.owned])


class SimMembership:
    """As `bus.kafka.membership.Membership`."""

    def __init__(
        self,
        group: Group,
        node: Node,
        *,
        take: Callable[[list[Any]], None],
        assigned: Callable[[Collection[int]], None],
        give_up: Callable[[Collection[int]], Awaitable[dict[int, int]]],
        lost: Callable[[Collection[int]], None],
    ) -> None:
        self.failed: asyncio.Future[BusUnavailable] = asyncio.get_running_loop().create_future()
        self.owned: set[int] = set()
        self.evicted = False
        """The group has given its partitions away; it does not know yet."""
        self._group, self._node = group, node
        self._take, self._assigned, self._give_up, self._lost = take, assigned, give_up, lost
        self._loop = asyncio.get_running_loop()
        self._at: dict[int, int] = {}
        self._begun: set[int] = set()
        self._paused: set[int] = set()
        self._wanted: dict[int, int] = {}
        self._beat_at = self._loop.time()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self.dead = False

    @property
    def silent_s(self) -> float:
        return self._loop.time() - self._beat_at

    def silent_here_s(self) -> float:
        """For how long the coordinator has not heard of it."""
        return self._loop.time() - self._beat_at

    def join(self) -> None:
        for number in range(self._group.broker.partitions):
            self._group.broker.watch(self._group.topic, number, self._wake)
        self._group.members.append(self)
        self._group.change()
        self._tasks = [self._node.spawn(self._beat()), self._node.spawn(self._read())]

    async def leave(self) -> None:
        if self.dead:
            return
        if not self.evicted and self.owned:
            self._commit_now(await self._give_up(sorted(self.owned)))
        if self in self._group.members:
            self._group.members.remove(self)
            self._group.change()
        await self.kill()

    async def kill(self) -> None:
        """It does nothing more; the group will notice, if it was not told."""
        self.dead = True
        await _cancel(self._tasks)

    def pause(self, partition: int) -> None:
        self._paused.add(partition)

    def resume(self, partition: int) -> None:
        self._paused.discard(partition)
        self._wake.set()

    def commit(self, offsets: dict[int, int]) -> None:
        self._wanted.update(offsets)

    async def revoke(self, numbers: list[int]) -> None:
        """The coordinator's: returns when it has let go; who does not answer in time is thrown out."""
        asked = self._node.spawn(self._let_go(numbers))
        self._tasks.append(asked)
        done, _ = await asyncio.wait([asked], timeout=GIVE_UP_S + SESSION_TIMEOUT_S)
        if done:
            self._tasks.remove(asked)
            if not asked.cancelled():
                asked.result()
        elif not self.evicted:
            self._group.members.remove(self)
            self.evicted = True

    def assign(self, numbers: list[int]) -> None:
        """The coordinator's: it reads them from where the group committed."""
        if numbers:
            self._at.update({number: self._group.broker.committed.get(number, 0) for number in numbers})
            self.owned.update(numbers)
            self._node.call(self._begin, numbers)

    def _begin(self, numbers: list[int]) -> None:
        ours = [number for number in numbers if number in self.owned]
        if ours and not self.dead:
            self._assigned(ours)
            self._begun.update(ours)
            self._wake.set()

    async def _let_go(self, numbers: list[int]) -> None:
        if not self.dead:
            with suppress(TimeoutError):
                async with asyncio.timeout(GIVE_UP_S):
                    self._commit_now(await self._give_up(numbers))
        self._drop(numbers)

    def _drop(self, numbers: Collection[int]) -> None:
        self.owned.difference_update(numbers)
        self._begun.difference_update(numbers)
        self._paused.difference_update(numbers)

    def _commit_now(self, offsets: dict[int, int]) -> None:
        if not self.evicted:
            ours = {number: at for number, at in offsets.items() if number in self.owned}
            self._group.broker.committed.update(ours)

    async def _beat(self) -> None:
        """Its heartbeats: commits go with them, and by them it learns that it was thrown out."""
        while True:
            await asyncio.sleep(self._group.broker.rng.uniform(0, 2 * BEAT_S))
            away_s = self._group.broker.away_until - self._loop.time()
            if away_s > 0:
                self._beat_at = self._loop.time() + away_s  # a coordinator that is away throws nobody out
                await asyncio.sleep(away_s)
            if self.evicted and not self.dead:
                self._lost(sorted(self.owned))
                self._drop(list(self.owned))
                self.evicted = False
                self._wanted.clear()
                self._beat_at = self._loop.time()
                self._group.members.append(self)
                self._group.change()
            self._beat_at = self._loop.time()
            wanted, self._wanted = self._wanted, {}
            self._commit_now({} if self.dead else wanted)

    async def _read(self) -> None:
        broker = self._group.broker
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(broker.delay())
            await broker.answers()
            more = True
            while more:
                more = False
                for number in sorted(self._begun - self._paused):
                    batch = broker.read(self._group.topic, number, self._at[number], broker.rng.randrange(1, 30))
                    if batch and number in self._begun and not self.dead:
                        more = True
                        self._at[number] += len(batch)
                        self._take(list(batch))
                await asyncio.sleep(0)


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
