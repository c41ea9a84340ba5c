"""How often a segment was begun by a finalizer and never ended, counted in Redis."""

import time
from collections.abc import Callable
from typing import Any

from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.store.redis_link import PREFIX, RedisLink

KEEP_S = 3600
"""A count is forgotten so long after its last attempt."""
AWAY_S = 1.0
"""After a call that failed, Redis is not asked for so long: nobody waits for it again and again."""


class RedisAttempts:
    """Counters by session and segment, without a word of what was said.

    A call takes `timeout_s` at most. While Redis is away nothing is counted.
    """

    def __init__(
        self, url: str, *, timeout_s: float, max_connections: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ValueError for what is no Redis URL."""
        self._link = RedisLink(url, timeout_s=timeout_s, max_connections=max_connections)
        self._clock = clock
        self._away_until = 0.0

    async def begin(self, session_id: SessionId, segment_id: int) -> int | None:
        """Counts an attempt, and gives how many were before it that nobody ended or took back; None: not counted."""
        key = _key(session_id, segment_id)
        counted = await self._ask(self._calls().incr(key).expire(key, KEEP_S))
        return int(counted[0]) - 1 if counted else None

    async def take_back(self, session_id: SessionId, segment_id: int) -> None:
        """An attempt that was counted was not one after all."""
        key = _key(session_id, segment_id)
        await self._ask(self._calls().decr(key).expire(key, KEEP_S))

    async def end(self, session_id: SessionId, segment_id: int) -> None:
        """Forgets the attempts: this one went well."""
        await self._ask(self._calls().delete(_key(session_id, segment_id)))

    async def close(self) -> None:
        """Closes the connections."""
        await self._link.close()

    @property
    def failures(self) -> int:
        """Calls that failed."""
        return self._link.failures

    def _calls(self) -> Any:
        return self._link.client.pipeline(transaction=False)

    async def _ask(self, calls: Any) -> list[Any]:
        if self._clock() < self._away_until:
            return []
        try:
            answers: list[Any] = await self._link.ask(calls.execute)
        except StoreUnavailable:
            self._away_until = self._clock() + AWAY_S
            return []
        return answers


def _key(session_id: SessionId, segment_id: int) -> str:
    return f"{PREFIX}attempts:{session_id}:{segment_id}"
