"""Where the gateways of a run are: one in each place, followed by another when it is gone or given up."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.sim.cluster import KAFKA
from tests.sim.gateway import GatewayProcess
from tests.sim.store import SEAT_TTL_S

if TYPE_CHECKING:
    from tests.sim.run import Run


class Places:
    """Sends clients to gateways, and begins the next one where one ends."""

    def __init__(self, run: Run, rng: random.Random) -> None:
        """Has those that `run` has already."""
        self.now = list(run.sites)
        """The gateways that are there, or were the last ones in their places."""
        self._run, self._rng = run, rng
        self._homes: dict[str, GatewayProcess] = {}
        self._followed: list[GatewayProcess] = []
        """Those of which the next one has begun, and may wait for a number."""
        self._loop = asyncio.get_running_loop()
        self._watched = [self._loop.create_task(self._watch(site)) for site in run.sites]

    def enrol(self, name: str) -> None:
        """One more client."""
        self._homes[name] = self._rng.choice(self._run.sites)

    def home(self, name: str) -> GatewayProcess:
        """The gateway that a client came to last."""
        return self._homes[name]

    def door(self, name: str) -> GatewayProcess:
        """The gateway that a client comes to: in a cluster often another one than before."""
        home = self._homes[name]
        open_now = [site for site in self.now if not site.closed and not site.hub.draining]
        if self._run.cluster is not None and open_now and (home not in open_now or self._rng.random() < 0.3):
            home = self._homes[name] = self._rng.choice(open_now)
        return home

    async def replace(self, site: GatewayProcess) -> None:
        """The next gateway takes the place of one that is gone, or given up."""
        if site not in self.now or site in self._followed:
            return
        self._followed.append(site)
        new = await site.follower()
        self._run.sites.append(new)
        self.now[self.now.index(site)] = new
        self._watched.append(self._loop.create_task(self._watch(new)))
        for name, home in self._homes.items():
            if home is site:
                self._homes[name] = new

    async def stall(self, site: GatewayProcess, for_s: float, *, given_up: bool) -> None:
        """A gateway stands still; where that takes long and it was `given_up`, another one has its place by then."""
        if for_s <= SEAT_TTL_S:
            await site.node.stand_still(for_s)
            return
        self._run.happened["stall past the seat"] += len(site.hub) > 0
        thawing = self._loop.create_task(site.node.stand_still(for_s))
        await asyncio.sleep(SEAT_TTL_S)
        if given_up and self._run.cluster is not None and self._numbered < KAFKA.result_partitions:
            await self.replace(site)
        await thawing

    @property
    def _numbered(self) -> int:
        """Those that have numbers, or soon will: one in each place, and those that were given up."""
        living = [site for site in self._run.sites if not site.closed]
        return len(self.now) + sum(site not in self.now or site in self._followed for site in living)

    async def _watch(self, site: GatewayProcess) -> None:
        """One that cannot go on ends in good order; then another takes its place."""
        await site.failed()
        self._run.happened["number lost"] += 1
        await asyncio.shield(self._loop.create_task(site.close()))
        await self.replace(site)

    async def close(self) -> None:
        """Nobody follows any more."""
        for task in self._watched:
            task.cancel()
        await asyncio.wait(self._watched)
        for task in self._watched:
            if not task.cancelled():
                task.result()
