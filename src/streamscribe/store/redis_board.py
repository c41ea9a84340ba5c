"""A notice board in Redis: workers say how they are, and do what gateways ask of all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from streamscribe.store.redis_link import PREFIX, RedisLink

ANNOUNCED_S = 2.0
"""What a worker said of itself ends after so long, unless it says it again."""
ORDERS_KEPT_S = 600.0
"""A worker that starts within this time does what was ordered before, as one that is replaced does."""
ANSWERS_KEPT_S = 120.0
MAX_ORDERS = 100
MAX_CONNECTIONS = 2

_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_SCRIPTS = ("announce", "withdraw", "announced", "order", "answer")
_ENDS, _TEXTS, _ORDERS = f"{PREFIX}workers", f"{PREFIX}worker-texts", f"{PREFIX}orders"


@dataclass(frozen=True, slots=True)
class Posted:
    """An order on the board; later ones have greater numbers. `asked`: whether who read it is to answer."""

    number: int
    text: bytes
    asked: bool


class RedisBoard:
    """Texts of workers, each by its name, which end with who wrote them; orders to all, and their answers.

    Each call takes `timeout_s` at most and may be made again; raises StoreUnavailable. All times are Redis' own. What a
    text says is not its affair. Workers' names hold no white space. What others have put there and nobody can read is
    passed over. Raises ValueError for what is no Redis URL. Of one event loop.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self._link = RedisLink(url, _SCRIPTS, timeout_s=timeout_s, max_connections=MAX_CONNECTIONS)

    async def announce(self, worker: str, text: bytes, after: int) -> list[Posted]:
        """Says how a worker is, for `ANNOUNCED_S`; some of the orders whose numbers are greater than `after`.

        Who is to answer an order stands in it: a worker whose call failed, or who looks late, finds what it is asked.
        """
        arguments = (worker, round(ANNOUNCED_S * 1e6), text, after)
        found = await self._link.run("announce", (_ENDS, _TEXTS, _ORDERS), arguments)
        return [_posted(raw, ceil(float(number)), worker) for raw, number in zip(found[::2], found[1::2], strict=True)]

    async def withdraw(self, worker: str) -> None:
        """The worker leaves."""
        await self._link.run("withdraw", (_ENDS, _TEXTS), (worker,))

    async def announced(self) -> Mapping[str, bytes]:
        """What workers say of themselves."""
        found = await self._link.run("announced", (_ENDS, _TEXTS), ())
        return _by_name(zip(found[::2], found[1::2], strict=True))

    async def order(self, text: bytes) -> tuple[int, Sequence[str]]:
        """Asks something of all workers; the order's number, and who is to answer: all that say how they are."""
        arguments = (text, round(ORDERS_KEPT_S * 1e3), MAX_ORDERS)
        number, *workers = await self._link.run("order", (_ENDS, _ORDERS), arguments)
        return int(number), [*_by_name((worker, b"") for worker in workers)]

    async def answer(self, number: int, worker: str, text: bytes) -> None:
        """A worker has done it."""
        await self._link.run("answer", (_answers(number),), (worker, text, round(ANSWERS_KEPT_S * 1e3)))

    async def answers(self, number: int) -> Mapping[str, bytes]:
        """Those that are there."""
        found = await self._link.ask(lambda: self._link.client.hgetall(_answers(number)))
        return _by_name(found.items())

    async def close(self) -> None:
        """Closes the connections."""
        await self._link.close()


def _answers(number: int) -> str:
    return f"{PREFIX}answers:{number}"


def _by_name(found: Iterable[tuple[bytes, bytes]]) -> dict[str, bytes]:
    """What is there of whom; names that no worker has are passed over."""
    told = ((name.decode(errors="replace"), text) for name, text in found)
    return {name: text for name, text in told if _UNREADABLE not in name}


def _posted(raw: bytes, number: int, worker: str) -> Posted:
    """An order as `order.lua` writes it: number and names in a line, then the text. Nobody is asked by any other."""
    head, _, text = raw.partition(b"\n")
    written, *names = head.split() or (b"",)
    ours = written == b"%d" % number
    return Posted(number, text if ours else b"", asked=ours and worker.encode() in names)
