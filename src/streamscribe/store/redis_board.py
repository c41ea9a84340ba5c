"""A notice board in Redis: workers say how they are, and do what gateways ask of all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

import redis.asyncio
from redis import exceptions as told
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from streamscribe.core.errors import StoreUnavailable
from streamscribe.store.redis_sessions import PREFIX, RETRY_AFTER_S, trouble_of

ANNOUNCED_S = 2.0
"""What a worker said of itself ends after so long, unless it says it again."""
ORDERS_KEPT_S = 600.0
"""A worker that starts within this time does what was ordered before, as one that is replaced does."""
ANSWERS_KEPT_S = 120.0
MAX_ORDERS = 100
MAX_CONNECTIONS = 2

_SCRIPTS = ("announce", "withdraw", "announced", "order", "answer")
_ENDS, _TEXTS, _ORDERS = f"{PREFIX}workers", f"{PREFIX}worker-texts", f"{PREFIX}orders"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Posted:
    """An order on the board; later ones have greater numbers. `asked`: whether who read it is to answer."""

    number: int
    text: bytes
    asked: bool


class RedisBoard:
    """Texts of workers, each by its name, which end with who wrote them; orders to all, and their answers.

    Each call takes `timeout_s` at most and may be made again; raises StoreUnavailable. All times are Redis' own. What a
    text says is not its affair. Workers' names hold no white space. Raises ValueError for what is no Redis URL. Of one
    event loop.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        pool = redis.asyncio.ConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            socket_timeout=None,  # its own would lose cancellations, see redis_sessions
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 1, supported_errors=(told.ConnectionError,)),
        )
        self._redis: Any = redis.asyncio.Redis.from_pool(pool)
        folder = files("streamscribe.store") / "lua"
        common = (folder / "common.lua").read_text()
        self._run = {
            name: self._redis.register_script(_whole(common, (folder / f"{name}.lua").read_text())) for name in _SCRIPTS
        }
        self._timeout_s = timeout_s
        self._connections = asyncio.Semaphore(MAX_CONNECTIONS)

    async def announce(self, worker: str, text: bytes, after: int) -> list[Posted]:
        """Says how a worker is, for `ANNOUNCED_S`; some of the orders whose numbers are greater than `after`.

        Who is to answer an order stands in it: a worker whose call failed, or who looks late, finds what it is asked.
        """
        arguments = (worker, round(ANNOUNCED_S * 1e6), text, after)
        found = await self._script("announce", (_ENDS, _TEXTS, _ORDERS), arguments)
        return [_posted(one, worker) for one in found]

    async def withdraw(self, worker: str) -> None:
        """The worker leaves."""
        await self._script("withdraw", (_ENDS, _TEXTS), (worker,))

    async def announced(self) -> Mapping[str, bytes]:
        """What workers say of themselves."""
        found = await self._script("announced", (_ENDS, _TEXTS), ())
        return {name.decode(): text for name, text in zip(found[::2], found[1::2], strict=True)}

    async def order(self, text: bytes) -> tuple[int, Sequence[str]]:
        """Asks something of all workers; the order's number, and who is to answer: all that say how they are."""
        arguments = (text, round(ORDERS_KEPT_S * 1e3), MAX_ORDERS)
        number, *workers = await self._script("order", (_ENDS, _ORDERS), arguments)
        return int(number), [name.decode() for name in workers]

    async def answer(self, number: int, worker: str, text: bytes) -> None:
        """A worker has done it."""
        await self._script("answer", (_answers(number),), (worker, text, round(ANSWERS_KEPT_S * 1e3)))

    async def answers(self, number: int) -> Mapping[str, bytes]:
        """Those that are there."""
        found = await self._ask(lambda: self._redis.hgetall(_answers(number)))
        return {name.decode(): text for name, text in found.items()}

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def _script(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await self._ask(lambda: self._run[name](keys, arguments))

    async def _ask(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        try:
            async with asyncio.timeout(self._timeout_s), self._connections:
                return await ask()
        except (TimeoutError, told.RedisError, OSError) as error:
            raise StoreUnavailable(trouble_of(error), retry_after_s=RETRY_AFTER_S) from None


def _answers(number: int) -> str:
    return f"{PREFIX}answers:{number}"


def _posted(raw: bytes, worker: str) -> Posted:
    """An order as `order.lua` writes it: number and names in a line, then the text."""
    head, _, text = raw.partition(b"\n")
    number, *names = head.split()
    return Posted(int(number), text, asked=worker.encode() in names)


def _whole(common: str, script: str) -> str:
    """A script with what all have in common, behind its first line: that one is Redis', and has its flags."""
    flags, _, body = script.partition("\n")
    return f"{flags}\n{common}\n{body}"
