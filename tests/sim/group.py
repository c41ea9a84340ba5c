"""A group of readers of the simulated log: who has which partitions, and what members know of it.

A member begins with a partition where the group committed. One that is silent for its session timeout, or answers no
rebalance, loses its partitions, and finds out when it speaks again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from streamscribe.bus.kafka.gaps import Gaps
from streamscribe.core.errors import BusUnavailable
from tests.sim.broker import Broker, cancel_all, in_turn
from tests.sim.clock import Node

SESSION_TIMEOUT_S = 2.0
GIVE_UP_S = 2.0
BEAT_S = 0.15


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
        await cancel_all([self._task])
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
        self.broker.met["partition moved"] += sum(len(numbers) for numbers in moving.values())
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
        self._begun_at: dict[int, int] = {}
        self.gaps = Gaps(self._loop.time)
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
        await cancel_all(self._tasks)

    def pause(self, partition: int) -> None:
        self._paused.add(partition)

    def resume(self, partition: int) -> None:
        self._paused.discard(partition)
        self._wake.set()

    def commit(self, offsets: dict[int, int]) -> None:
        self._wanted.update(offsets)

    def begin_again(self, partition: int, let_go: Callable[[Collection[int]], None]) -> None:
        if partition in self.owned and not self.evicted:
            let_go([partition])
            self._drop([partition])
            self.assign([partition])

    async def revoke(self, numbers: list[int]) -> None:
        """The coordinator's: returns when it has let go; who does not answer in time is thrown out."""
        asked = self._node.spawn(self._let_go(numbers))
        self._tasks.append(asked)
        done, _ = await asyncio.wait([asked], timeout=GIVE_UP_S + SESSION_TIMEOUT_S)
        if done:
            self._tasks.remove(asked)
            if not asked.cancelled():
                asked.result()
        else:
            asked.cancel()  # later, the partitions may be its own again
            if not self.evicted:
                self._group.members.remove(self)
                self.evicted = True

    def assign(self, numbers: list[int]) -> None:
        """The coordinator's: it reads them from where the group committed."""
        if numbers:
            for number in numbers:
                where = self._group.topic, number
                self._at[number] = self._begun_at[number] = self._group.broker.committed.get(where, 0)
                self.gaps.begin(where, self._at[number])
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
            ours = {(self._group.topic, number): at for number, at in offsets.items() if number in self.owned}
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
                more = late = False
                for number in sorted(self._begun - self._paused):
                    where = self._group.topic, number
                    batch = broker.read(*where, self._at[number], broker.rng.randrange(1, 30))
                    if number in self._begun and not self.dead:
                        taken, self._at[number] = in_turn(self.gaps, where, batch, self._at[number])
                        if taken:
                            more = True
                            self._take(taken)
                            self._at[number] = broker.goes_on(self._at[number], self._begun_at[number])
                        late = late or self._at[number] < broker.end(*where)
                await asyncio.sleep(broker.delay() if late and not more else 0)
                more = more or late
