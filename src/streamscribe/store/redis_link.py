"""Calls of a Redis that end in time, whatever the server does, and lose no cancellation."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import redis.asyncio
from redis import exceptions as told
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from streamscribe.core.errors import StoreUnavailable
from streamscribe.redis_url import client_of

PREFIX = "streamscribe:"
RETRY_AFTER_S = 1.0
NOT_REACHED = "Redis cannot be reached"
_NOT_LET_IN = "Redis refuses the user or password of store.redis_url"

_WRITTEN = f"{PREFIX}written"
_WRITTEN_S = 60

_T = TypeVar("_T")


class Trouble(Exception):
    """What is wrong with Redis, for who runs it, in words that hold no address and no password; and what to do next."""

    def __init__(self, told: str, next_step: str = "see: streamscribe doctor") -> None:
        self.next_step = next_step
        super().__init__(told)


class RedisLink:
    """A client, some Lua scripts of this package, and how many calls have failed.

    A call takes `timeout_s` at most, what waits for one of `max_connections` connections included. Connects at first
    use; a call whose connection turns out to be closed is made once more. Of one event loop. Raises ValueError for an
    address by which none can connect.
    """

    def __init__(self, url: str, scripts: Sequence[str] = (), *, timeout_s: float, max_connections: int) -> None:
        self.client: Any = client_of(url, lambda url: _client(url, timeout_s, max_connections))
        named = self.client.connection_pool.connection_kwargs
        self._place = named.get("path") or f"{named.get('host', 'localhost')}:{named.get('port', 6379)}"
        self.failures = 0
        self._scripts = {name: self.client.register_script(_text(name)) for name in scripts}
        self._timeout_s = timeout_s
        self._connections = asyncio.Semaphore(max_connections)

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """What a script answers; raises StoreUnavailable."""
        return await self.ask(lambda: self._scripts[script](keys, arguments))

    async def ask(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """What Redis answers; raises StoreUnavailable, whose text is for clients, and whose cause is the `Trouble`."""
        try:
            async with asyncio.timeout(self._timeout_s), self._connections:
                return await ask()
        except (TimeoutError, told.RedisError, OSError) as error:
            self.failures += 1
            raise StoreUnavailable(retry_after_s=RETRY_AFTER_S) from _trouble_of(error)

    async def check(self) -> None:
        """Returns when Redis takes what is written. Raises StoreUnavailable: why not, where, and what to do next.

        It is for no client's ears. A replica answers a PING, and so does a Redis that is full.
        """
        try:
            await self.ask(lambda: self.client.set(_WRITTEN, "", ex=_WRITTEN_S))
        except StoreUnavailable as error:
            trouble = error.__cause__
            assert isinstance(trouble, Trouble)  # noqa: S101 - as `ask` promises
            told = f"{trouble} ({self._place}); {trouble.next_step}"
            raise StoreUnavailable(told, retry_after_s=RETRY_AFTER_S) from None

    async def close(self) -> None:
        """Closes the connections."""
        await self.client.aclose()


def _client(url: str, timeout_s: float, max_connections: int) -> Any:
    pool = redis.asyncio.ConnectionPool.from_url(
        url,
        max_connections=max_connections,
        protocol=2,  # a newer one greets, and each trip of that waits for the interpreter while models load
        socket_timeout=None,  # redis-py's is by `asyncio.wait_for`, which loses cancellations before Python 3.12
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 1, supported_errors=(told.ConnectionError,)),
    )
    return redis.asyncio.Redis.from_pool(pool)


def _trouble_of(error: Exception) -> Trouble:
    match error:
        case told.AuthenticationError() | told.AuthorizationError() | told.NoPermissionError():
            return Trouble(_NOT_LET_IN)
        case told.ResponseError() if "unauthenticated" in str(error):  # by one that takes nothing long from strangers
            return Trouble(_NOT_LET_IN)
        case told.OutOfMemoryError():
            return Trouble("Redis is full", "give it more memory, with maxmemory-policy noeviction")
        case told.ReadOnlyError():
            return Trouble("Redis is a replica, which takes no writes", "name the primary in store.redis_url")
        case told.ConnectionError():
            return Trouble(NOT_REACHED, "is it started? type: redis-server, or give another by REDIS_URL")
        case TimeoutError() | told.TimeoutError():
            return Trouble("Redis does not answer in time", "see: streamscribe doctor, or raise store.timeout_s")
        case _:
            return Trouble("Redis refused what the session store asked")


def _text(script: str) -> str:
    """A script with what all have in common, behind its first line: that one is Redis', and has its flags."""
    folder = files("streamscribe.store") / "lua"
    flags, _, body = (folder / f"{script}.lua").read_text().partition("\n")
    return f"{flags}\n{(folder / 'common.lua').read_text()}\n{body}"
