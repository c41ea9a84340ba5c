"""The session store of a cluster in virtual time: its network, and what it loses."""

import asyncio
import random
from functools import partial
from typing import Any

from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.store.memory_sessions import MemorySessions

LEASE_TTL_S = 2.0
SEAT_TTL_S = 6.0
EPOCHS_A_LIFE = 10**6
"""Redis' epochs are times, so that none comes again though it has lost everything: its next life is so much later."""


class SimStore:
    """All that processes share beside the log."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.away_until = 0.0
        self.unsure = rng.choice((0.0, 0.0, 0.05, 0.2))
        """The share of calls that fail; half of those are done."""
        self.was_unsure = self.unsure > 0
        self.lives = 0
        self.missed: set[SessionId] = set()
        """Sessions whose tickets were asked for and not there."""
        self.sessions = self._new()

    def _new(self) -> MemorySessions:
        clock = asyncio.get_running_loop().time
        store = MemorySessions(lease_ttl_s=LEASE_TTL_S, seat_ttl_s=SEAT_TTL_S, keep_s=600, clock=clock)
        store._leases._forgotten_epoch = self.lives * EPOCHS_A_LIFE
        return store

    def lose_all(self) -> None:
        """It comes back empty."""
        self.lives += 1
        self.sessions = self._new()


class StoreEnd:
    """A process' end of it: slow, at times away, and at times what it did is not told."""

    def __init__(self, store: SimStore) -> None:
        self.dead = False
        """Its process is: nothing of it reaches the store any more."""
        self._store = store

    def __getattr__(self, method: str) -> Any:
        return partial(self._ask, method)

    async def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        store, rng = self._store, self._store.rng
        if self.dead:
            raise StoreUnavailable
        await asyncio.sleep(rng.uniform(0, 0.01))
        if asyncio.get_running_loop().time() < store.away_until:
            await asyncio.sleep(0.2)
            raise StoreUnavailable
        unsure = rng.random() < store.unsure
        if self.dead or (unsure and rng.random() < 0.5):
            raise StoreUnavailable
        answer = await getattr(store.sessions, method)(*args, **kwargs)
        if method == "ticket" and answer is None:
            store.missed.add(args[0])
        await asyncio.sleep(rng.uniform(0, 0.01))
        if unsure:  # it was done, and nobody knows
            raise StoreUnavailable
        return answer
