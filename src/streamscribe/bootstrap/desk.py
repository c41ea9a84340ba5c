"""What is kept in this process, or in several workers, for those who ask from the event loop."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, Never

import msgspec

from streamscribe.cache.levels import Levels
from streamscribe.core.errors import CacheUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.wire.rest_cache import Level, Purged, Tier

SWEEP_S = 60.0
"""What has ended lies for so long at most."""

SHARED_TIER = "redis"
"""Of the tiers of a level, the one that all workers have in common."""

Asked = Literal["facts", "outline", "purge"]
AskAll = Callable[[Asked, TenantId | None], Awaitable[Sequence[msgspec.Raw]]]

_levels = msgspec.json.Decoder(tuple[Level, ...] | None)
_purged = msgspec.json.Decoder(Purged | None)


async def sweep(levels: Levels, every_s: float = SWEEP_S) -> Never:
    """Lets go of what has ended, also where nobody asks for anything; runs until it is cancelled."""
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(levels.sweep)


class LevelsDesk:
    """Asks the levels in a thread, one request at a time: a purge of Redis walks all its keys."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self._turn = asyncio.Lock()

    async def levels(self, *, figures: bool) -> tuple[Level, ...]:
        """What is kept; without `figures` the names only, and nothing is looked at: how long a look takes tells too."""
        if not figures:
            return tuple(self._levels.outline())
        async with self._turn:
            facts = await asyncio.to_thread(self._levels.facts)
        return tuple(level.told() for level in facts)

    async def purge(self, tenant: TenantId) -> Purged:
        """Forgets all of a tenant; how many things each level had. Raises CacheUnavailable."""
        async with self._turn:
            return Purged(await asyncio.to_thread(self._levels.purge, tenant))

    async def answer(self, asked: Asked, tenant: str | None) -> tuple[Level, ...] | Purged:
        """What who asks all workers (`WorkersDesk`) wants of this one. Raises CacheUnavailable."""
        if asked == "purge":
            return await self.purge(TenantId(tenant or ""))
        return await self.levels(figures=asked == "facts")


class WorkersDesk:
    """`gateway.rest.cache.CacheDesk` of several workers, by the answers of all. One request at a time."""

    def __init__(self, ask_all: AskAll) -> None:
        """`ask_all` gives each worker's answer (null where it keeps nothing yet); raises CacheUnavailable."""
        self._ask_all = ask_all
        self._turn = asyncio.Lock()

    async def levels(self, *, figures: bool) -> tuple[Level, ...]:
        """What all keep together; without `figures` the names only. Raises CacheUnavailable."""
        async with self._turn:
            told = [_levels.decode(raw) for raw in await self._ask_all("facts" if figures else "outline", None)]
        return merged([one for one in told if one is not None], figures=figures)

    async def purge(self, tenant: TenantId) -> Purged:
        """Forgets all of a tenant in every worker; how many things each level had, of each worker's.

        All are asked twice: before the last of them has done it the first time, one that has may have read from the
        Redis that they share what another has just put there. Raises CacheUnavailable.
        """
        async with self._turn:
            told = [_purged.decode(raw) for raw in await self._ask_all("purge", tenant)]
            await self._ask_all("purge", tenant)
        purged: Counter[str] = Counter()
        for one in told:
            purged.update(one.purged if one is not None else {})
        return Purged(dict(purged), workers=len(told))


def not_all(missing: int, asked: int) -> CacheUnavailable:
    """Why what was asked of all workers is not done."""
    if not asked:
        return CacheUnavailable("no worker is ready, and what they keep is not known here")
    return CacheUnavailable(f"{missing} of {asked} workers did not do it; the others have: ask again")


def merged(told: Sequence[tuple[Level, ...]], *, figures: bool) -> tuple[Level, ...]:
    """The levels of several workers as one's: sums, but for what all have in common."""
    by_name: dict[str, list[Level]] = {}
    for levels in told:
        for level in levels:
            by_name.setdefault(level.level, []).append(level)
    return tuple(_level(same, figures=figures) for same in by_name.values())


def _level(same: Sequence[Level], *, figures: bool) -> Level:
    first = same[0]
    tiers = tuple(
        _tier([tier for level in same for tier in level.tiers if tier.tier == one.tier]) for one in first.tiers
    )
    if not figures:
        return Level(first.level, tuple(Tier(tier.tier) for tier in tiers), first.ttl_s)
    return Level(
        first.level,
        tiers,
        first.ttl_s,
        _sum(level.hits for level in same),
        _sum(level.misses for level in same),
        any(level.resting for level in same) or None,
    )


def _tier(same: Sequence[Tier]) -> Tier:
    first = same[0]
    if first.tier == SHARED_TIER:
        return first
    return Tier(
        first.tier,
        None if first.available is None else all(tier.available for tier in same),
        _sum(tier.entries for tier in same),
        _sum(tier.bytes for tier in same),
        _sum(tier.damaged for tier in same),
        _sum(tier.failures for tier in same),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
