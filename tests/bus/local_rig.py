"""A gateway's end of the local bus, and members that join, are killed and sent away."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.link import Link
from streamscribe.core.ids import SessionId
from streamscribe.core.records import SessionOpened
from tests.contracts.bus import chunk, opened
from tests.contracts.takeover import CHUNK, Ear
from tests.sim.clock import Node
from tests.sim.network import Delay, link_pair


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
        here, there = await self.connect(member)
        self.links += [here, there]
        self.here[member], self.there[member] = here, there
        self.gateway.join(member, here)
        return there

    async def connect(self, member: int) -> tuple[Link, Link]:
        """Two ends of a socket."""
        ours, theirs = socket.socketpair()
        return await Link.open(ours), await Link.open(theirs)

    async def kill(self, member: int, *, suspect: bool = True, killed: bool = False) -> None:
        """Ends a member's process: all that it said before is heard."""
        self.there[member].close()
        await self.here[member].closed
        self.gateway.leave(member, suspect=suspect, killed=killed)

    async def publish(self, name: str, first: int, last: int) -> None:
        for index in range(first, last + 1):
            await self.gateway.publish(chunk(name, index, CHUNK) if index else opened(name))


class VirtualRig(Rig):
    """One in virtual time, as the simulation has it."""

    async def connect(self, member: int) -> tuple[Link, Link]:
        """Two ends of a socket of the simulation."""
        rng = random.Random(member)
        (_, here), (_, there) = link_pair(Node("gateway"), Node(f"worker-{member}"), rng, Delay(rng, 0.003))
        return here, there


@asynccontextmanager
async def a_rig(
    max_backlog_s: float = 30, max_replay_s: float = 60, kind: Callable[[float, float], Rig] = Rig
) -> AsyncIterator[Rig]:
    rig = kind(max_backlog_s, max_replay_s)
    try:
        yield rig
        rig.gateway.check_integrity()
    finally:
        await rig.gateway.close()
        for link in rig.links:
            link.close()
        await asyncio.gather(*(link.closed for link in rig.links))
