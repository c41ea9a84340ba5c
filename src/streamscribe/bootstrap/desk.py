"""What is kept in this process, for those who ask from the event loop."""

import asyncio
from collections.abc import Mapping
from typing import Never

from streamscribe.cache.levels import Levels
from streamscribe.core.ids import TenantId
from streamscribe.wire.rest_cache import Level

SWEEP_S = 60.0
"""What has ended lies for so long at most."""


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

    async def purge(self, tenant: TenantId) -> Mapping[str, int]:
        """Forgets all of a tenant; how many things each level had. Raises CacheUnavailable."""
        async with self._turn:
            return await asyncio.to_thread(self._levels.purge, tenant)
