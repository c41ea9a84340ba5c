"""What a member of the brokers' group says of it in its log: what becomes of partitions, and that none comes."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from streamscribe.bootstrap.cluster.board import loads_on
from streamscribe.core.cluster_load import UNOWNED_TOO_LONG_S, ClusterLoad, WorkerLoad
from streamscribe.core.errors import StoreUnavailable
from streamscribe.observe.logs import get_logger

if TYPE_CHECKING:
    from streamscribe.bus.kafka.membership import Change
    from streamscribe.store.redis_board import RedisBoard

LOOK_EVERY_S = 1.0
NO_GATEWAY = -1

_log = get_logger(__name__)


def tell_partitions(what: "Change", numbers: Collection[int]) -> None:
    """A line for each change; none where a rebalance changed nothing here."""
    if numbers:
        log = _log.warning if what in ("lost", "begun_again") else _log.info
        log("partitions changed hands", reason=what, partitions=sorted(numbers))


class Idle:
    """Says once that a worker has no partition while some have had no owner for long: its group is at a standstill.

    One that has none because there are more workers than partitions says nothing.
    """

    def __init__(self, partitions: int, mine: Callable[[], Collection[int]]) -> None:
        self._partitions = partitions
        self._mine = mine
        self._books = ClusterLoad(NO_GATEWAY)
        self._told = False

    def look(self, loads: Mapping[str, WorkerLoad], now: float) -> None:
        """By what all workers tell now."""
        self._books.heard(loads, now)
        lacking = [one for one in range(self._partitions) if self._books.unowned_too_long(one, now)]
        idle = bool(lacking) and not self._mine()
        if idle and not self._told:
            _log.warning(
                "no partition comes to this worker although some have no owner",
                partitions=lacking,
                seconds=UNOWNED_TOO_LONG_S,
                detail="the brokers' group is at a standstill; see docs/kafka.md, When no worker gets a partition",
            )
        self._told = idle or (self._told and not self._mine())

    async def watch(self, board: "RedisBoard") -> NoReturn:
        """Until cancelled; while the store does not answer nothing is known.

        What the others tell is read only while this one has none: of many workers each would read all, for good.
        """
        loop = asyncio.get_running_loop()
        while True:
            with suppress(StoreUnavailable):
                self.look({} if self._mine() else await loads_on(board), loop.time())
            await asyncio.sleep(LOOK_EVERY_S)
