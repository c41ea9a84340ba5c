"""The session store of a cluster in virtual time: its network, and what it loses."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.store.memory_sessions import MemorySessions
from streamscribe.store.numbers import NumbersTaken
from streamscribe.store.redis_attempts import RedisAttempts

LEASE_TTL_S = 2.0
SEAT_TTL_S = 6.0
_FENCED = ("save", "note", "forget")
_OF_NUMBERS = ("take_number", "free_number")
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
        self.met: Counter[str] = Counter()
        """How often it did something and did not tell."""
        self.stale: list[str] = []
        """What owners wrote whose sessions were others' by then (law 2)."""
        self.lives = 0
        self.silent: dict[SessionId, list[tuple[str, int | None]]] = {}
        """Owners that others took a session over from and that had not released it, in turn, and where they were."""
        self.missed: set[SessionId] = set()
        """Sessions whose tickets were asked for and not there."""
        self.sessions = self._new()
        self.attempts: dict[str, set[str]] = {}
        """Of finalizers at segments: who has begun which and not ended it."""
        self.numbers: dict[int, tuple[float, str]] = {}
        """Of gateways: until when each is whose."""
        self.blamed: set[str] = set()
        """What of it may be left: of segments that finalizers were at which ended."""

    def _new(self) -> MemorySessions:
        clock = asyncio.get_running_loop().time
        store = MemorySessions(lease_ttl_s=LEASE_TTL_S, seat_ttl_s=SEAT_TTL_S, keep_s=600, clock=clock)
        store._leases._forgotten_epoch = self.lives * EPOCHS_A_LIFE
        return store

    @property
    def seats(self) -> int:
        """Taken now, of all tenants."""
        now_s = asyncio.get_running_loop().time()
        return sum(now_s < ends_s for one in self.sessions._tenants.values() for ends_s in one.seats.values())

    def lose_all(self) -> None:
        """It comes back empty."""
        self.lives += 1
        self.sessions = self._new()
        self.attempts.clear()
        self.numbers.clear()

    async def take_number(self, gateway: str, numbers: range) -> int | NumbersTaken:
        """As `take_number.lua`."""
        now_s = asyncio.get_running_loop().time()
        for number in numbers:
            ends_s, holder = self.numbers.get(number, (0.0, ""))
            if ends_s <= now_s or holder == gateway:
                self.met["number given again"] += holder not in ("", gateway)
                self.numbers[number] = now_s + SEAT_TTL_S, gateway
                return number
        taken = sorted(self.numbers[number] for number in numbers)
        return NumbersTaken(round(taken[0][0] * 1e6), round(taken[-1][0] * 1e6), taken[0][1])

    async def free_number(self, gateway: str, number: int) -> None:
        """As `free_number.lua`, but for who had it."""
        if self.numbers.get(number, (0.0, ""))[1] == gateway:
            self.numbers[number] = 0.0, gateway


class StoreEnd:
    """A process' end of it: slow, at times away, and at times what it did is not told."""

    def __init__(self, store: SimStore) -> None:
        self.dead = False
        """Its process is: nothing of it reaches the store any more."""
        self._store = store

    def __getattr__(self, method: str) -> Any:
        return partial(self._ask, method)

    async def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return await self.ask(partial(self._done, method, *args, **kwargs))

    async def _done(self, method: str, *args: Any, **kwargs: Any) -> Any:
        held = self._store.sessions._leases.newest(args[0].session_id) if method in _FENCED else None
        before = self._store.sessions._leases._held.get(args[0]) if method == "claim" else None
        shared: Any = self._store if method in _OF_NUMBERS else self._store.sessions
        answer = await getattr(shared, method)(*args, **kwargs)
        if method in _FENCED and (held is None or held.epoch != args[0].epoch):
            self._store.stale.append(method)
        if before is not None and not before.released and before.lease.owner != answer.owner:
            self._store.silent.setdefault(args[0], []).append((before.lease.owner, before.place))
        if method == "ticket" and answer is None:
            self._store.missed.add(args[0])
        return answer

    async def ask(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """What it answers; raises StoreUnavailable."""
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
        answer = await call()
        await asyncio.sleep(rng.uniform(0, 0.01))
        if unsure:  # it was done, and nobody knows
            store.met["store done untold"] += 1
            raise StoreUnavailable
        return answer


class SimAttempts(RedisAttempts):
    """The real one, at the simulated store."""

    def __init__(self, store: SimStore) -> None:
        self.link = StoreEnd(store)
        link: Any = self.link
        self._link = link
        self._clock = asyncio.get_running_loop().time
        self._away_until = 0.0
        self._owed: list[tuple[str, str | None]] = []
        self._paying = asyncio.Lock()
        self._begun = store.attempts

    async def _note(self, key: str, by: str, fewer_than: int) -> int:
        async def note() -> int:
            others = len(self._begun.get(key, set()) - {by})
            if others < fewer_than:
                self._begun.setdefault(key, set()).add(by)
            return others

        noted: int = await self._link.ask(note)
        return noted

    async def _erase(self, owed: Sequence[tuple[str, str | None]]) -> bool:
        async def erase() -> bool:
            for key, by in owed:
                self._begun[key] = set() if by is None else self._begun.get(key, set()) - {by}
            return True

        erased: bool = await self._link.ask(erase)
        return erased
