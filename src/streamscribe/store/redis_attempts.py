"""How often a segment was begun by a finalizer and never ended, counted in Redis."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import redis.asyncio
from redis import exceptions as told

from streamscribe.core.ids import SessionId
from streamscribe.store.redis_sessions import PREFIX

KEEP_S = 3600
"""A count is forgotten so long after its last attempt."""
AWAY_S = 1.0
"""After a call that failed, Redis is not asked for so long: nobody waits for it again and again."""


class RedisAttempts:
    """Counters by session and segment, without a word of what was said.

    A call takes `timeout_s` at most. While Redis is away nothing is counted: each attempt looks like the first one.
    """

    def __init__(
        self, url: str, *, timeout_s: float, max_connections: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ValueError for what is no Redis URL."""
        self._redis: Any = redis.asyncio.Redis.from_url(
            url,
            max_connections=max_connections,
            socket_timeout=None,  # its own would lose cancellations, see redis_sessions
            socket_connect_timeout=timeout_s,
        )
        self._timeout_s = timeout_s
        self._connections = asyncio.Semaphore(max_connections)
        self._clock = clock
        self._away_until = 0.0
        self.failures = 0

    async def begin(self, session_id: SessionId, segment_id: int) -> int:
        """Counts an attempt, and gives how many were before it that nobody ended or took back."""
        key = _key(session_id, segment_id)
        counted = await self._ask(self._redis.pipeline(transaction=False).incr(key).expire(key, KEEP_S))
        return int(counted[0]) - 1 if counted else 0

    async def take_back(self, session_id: SessionId, segment_id: int) -> None:
        """An attempt that was not one after all."""
        key = _key(session_id, segment_id)
        await self._ask(self._redis.pipeline(transaction=False).decr(key).expire(key, KEEP_S))

    async def end(self, session_id: SessionId, segment_id: int) -> None:
        """Forgets the attempts: this one went well."""
        await self._ask(self._redis.pipeline(transaction=False).delete(_key(session_id, segment_id)))

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def _ask(self, asked: Any) -> list[Any]:
        async with self._connections:
            if self._clock() < self._away_until:
                return []
            try:
                async with asyncio.timeout(self._timeout_s):
                    answers: list[Any] = await asked.execute()
            except (TimeoutError, told.RedisError, OSError):
                self.failures += 1
                self._away_until = self._clock() + AWAY_S
                return []
            return answers


def _key(session_id: SessionId, segment_id: int) -> str:
    return f"{PREFIX}attempts:{session_id}:{segment_id}"
