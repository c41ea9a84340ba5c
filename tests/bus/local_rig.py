"""A gateway's end of the local bus, and members that join, are killed and sent away."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.link import Link
from streamscribe.core.ids import SessionId
from streamscribe.core.records import SessionOpened
from tests.contracts.bus import chunk, opened
from tests.contracts.takeover import CHUNK, Ear


class Watch:
    """Notes what the bus tells its observer."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def over(self, session_id: SessionId) -> None:
        self.told.append(("over", session_id))

    def taken_over(self, opened: SessionOpened) -> None:
        self.told.append(("taken over", opened.session_id))

    def quarantined(self, opened: SessionOpened, index: int) -> None:
        self.told.append(("quarantined", opened.session_id, index))

    def fenced(self) -> None:
        self.told.append(("fenced",))


class Rig:
    """A gateway's end whose sessions go to the member `chosen`."""

    def __init__(self, max_backlog_s: float = 30, max_replay_s: float = 60) -> None:
        self.chosen: int | None = 1
        self.watch = Watch()
        self.gateway = LocalGatewayBus(max_backlog_s, max_replay_s, self.place, self.watch)
        self.gateway.attach_gateway(ear := Ear())
        self.ear = ear
        self.here: dict[int, Link] = {}
        self.there: dict[int, Link] = {}
        self.links: list[Link] = []

    def place(self, opened: SessionOpened) -> int | None:
        return self.chosen

    async def join(self, member: int) -> Link:
        """A member's own end of its link."""
        ours, theirs = socket.socketpair()
        here, there = await Link.open(ours), await Link.open(theirs)
        self.links += [here, there]
        self.here[member], self.there[member] = here, there
        self.gateway.join(member, here)
        return there

    async def kill(self, member: int, *, suspect: bool = True) -> None:
        """Ends a member's process: all that it said before is heard."""
        self.there[member].close()
        await self.here[member].closed
        self.gateway.leave(member, suspect=suspect)

    async def publish(self, name: str, first: int, last: int) -> None:
        for index in range(first, last + 1):
            await self.gateway.publish(chunk(name, index, CHUNK) if index else opened(name))


@asynccontextmanager
async def a_rig(max_backlog_s: float = 30, max_replay_s: float = 60) -> AsyncIterator[Rig]:
    rig = Rig(max_backlog_s, max_replay_s)
    try:
        yield rig
        rig.gateway.check_integrity()
    finally:
        await rig.gateway.close()
        for link in rig.links:
            link.close()
        await asyncio.gather(*(link.closed for link in rig.links))
