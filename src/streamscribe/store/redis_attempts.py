"""Which finalizers have begun a segment and not ended it, noted in Redis."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.store.redis_link import PREFIX, RedisLink

KEEP_S = 3600
"""What was noted of a segment is forgotten so long after its last attempt."""
TRIES = 3
"""Of a call: a Redis that fails at some would else be taken to be away mostly, and no segment ever be suspected."""
AWAY_S = 1.0
"""After a call that failed so often, Redis is not asked for so long: nobody waits for it again and again."""
MAX_OWED = 4096
"""Notes that wait to be erased; the oldest are given up."""

_NOTED = "attempt"

_T = TypeVar("_T")


class RedisAttempts:
    """Names of finalizers by session and segment, without a word of what was said.

    A call takes `TRIES` times `timeout_s` at most. While Redis is away nothing is noted. What could not be erased then
    is erased before anything else is noted, or at the end: a note that stays is that of a process which ended.
    """

    def __init__(
        self, url: str, *, timeout_s: float, max_connections: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ValueError for what is no Redis URL."""
        self._link = RedisLink(url, (_NOTED,), timeout_s=timeout_s, max_connections=max_connections)
        self._clock = clock
        self._away_until = 0.0
        self._owed: list[tuple[str, str | None]] = []
        self._paying = asyncio.Lock()

    async def begin(self, session_id: SessionId, segment_id: int, by: str, *, fewer_than: int) -> int | None:
        """How many others have begun it and neither ended it nor taken that back; None: Redis does not say.

        Where they are `fewer_than` so many, `by` is noted as one of them.
        """
        if not await self._pay():
            return None
        return await self._ask(partial(self._note, _key(session_id, segment_id), by, fewer_than))

    async def take_back(self, session_id: SessionId, segment_id: int, by: str) -> None:
        """Its attempt was none after all."""
        self._owed.append((_key(session_id, segment_id), by))
        await self._pay()

    async def end(self, session_id: SessionId, segment_id: int) -> None:
        """Forgets all attempts: this one went well."""
        self._owed.append((_key(session_id, segment_id), None))
        await self._pay()

    async def close(self) -> None:
        """Erases what is left to be, if Redis answers now, and closes the connections."""
        self._away_until = 0.0
        await self._pay()
        await self._link.close()

    @property
    def failures(self) -> int:
        """Calls that failed."""
        return self._link.failures

    async def _pay(self) -> bool:
        """Erases what is owed; whether nothing is left of what was owed before."""
        async with self._paying:
            del self._owed[:-MAX_OWED]
            owed = list(self._owed)
            if owed and await self._ask(partial(self._erase, owed)) is None:
                return False
            del self._owed[: len(owed)]
            return True

    async def _note(self, key: str, by: str, fewer_than: int) -> int:
        return int(await self._link.run(_NOTED, (key,), (by, fewer_than, KEEP_S)))

    async def _erase(self, owed: Sequence[tuple[str, str | None]]) -> bool:
        calls = self._link.client.pipeline(transaction=False)
        for key, by in owed:
            calls.delete(key) if by is None else calls.srem(key, by)
        await self._link.ask(calls.execute)
        return True

    async def _ask(self, call: Callable[[], Awaitable[_T]]) -> _T | None:
        """None where Redis does not answer."""
        if self._clock() < self._away_until:
            return None
        for _ in range(TRIES):
            with suppress(StoreUnavailable):
                return await call()
        self._away_until = self._clock() + AWAY_S
        return None


def _key(session_id: SessionId, segment_id: int) -> str:
    return f"{PREFIX}tried:{session_id}:{segment_id}"
