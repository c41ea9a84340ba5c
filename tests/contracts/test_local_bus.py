"""The local bus over real socket pairs, both ends in one loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.link import Link
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.records import SessionOpened
from streamscribe.ports import WorkerBus
from tests.contracts.bus import BusContract, Ends
from tests.contracts.takeover import TakeoverContract


async def linked() -> tuple[Link, Link]:
    """Two ends of one socket pair."""
    ours, theirs = socket.socketpair()
    return await Link.open(ours), await Link.open(theirs)


class LocalRig:
    """Members are numbered as they come; each session goes to the one that has least."""

    def __init__(self, max_backlog_s: float) -> None:
        self.gateway = LocalGatewayBus(max_backlog_s, 60, self.place)
        self.links: dict[int, tuple[Link, Link]] = {}
        self.workers: dict[LocalWorkerBus, int] = {}
        self._placed: list[int] = []

    def place(self, opened: SessionOpened) -> int | None:
        chosen = min(self.links, key=self._placed.count, default=None)
        if chosen is not None:
            self._placed.append(chosen)
        return chosen

    async def start_worker(self) -> LocalWorkerBus:
        number = len(self.workers) + 1
        here, there = self.links[number] = await linked()
        worker = LocalWorkerBus(there)
        self.workers[worker] = number
        self.gateway.join(number, here)
        return worker

    async def kill_worker(self, worker: WorkerBus) -> None:
        assert isinstance(worker, LocalWorkerBus)
        number = self.workers[worker]
        here, there = self.links.pop(number)
        there._transport.abort()
        await asyncio.gather(here.closed, there.closed)
        self.gateway.leave(number, suspect=False)
        self.gateway.check_integrity()

    async def close(self) -> None:
        await self.gateway.close()
        for here, there in self.links.values():
            here.close()
            assert await asyncio.gather(here.closed, there.closed) == [None, None]


@asynccontextmanager
async def local_rig(max_backlog_s: float) -> AsyncIterator[LocalRig]:
    rig = LocalRig(max_backlog_s)
    try:
        yield rig
        rig.gateway.check_integrity()
    finally:
        await rig.close()


class TestLocalBus(BusContract):
    @asynccontextmanager
    async def make_bus(self, max_backlog_s: float) -> AsyncIterator[Ends]:
        async with local_rig(max_backlog_s) as rig:
            yield Ends(rig.gateway, await rig.start_worker())


class TestLocalTakeover(TakeoverContract):
    @asynccontextmanager
    async def make_rig(self, max_backlog_s: float) -> AsyncIterator[LocalRig]:
        async with local_rig(max_backlog_s) as rig:
            yield rig
