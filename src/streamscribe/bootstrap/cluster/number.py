"""The number of a gateway: the partition of results that it reads, and no other gateway of its cluster."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import randrange
from typing import TYPE_CHECKING

from streamscribe.core.errors import StoreUnavailable
from streamscribe.observe.logs import get_logger
from streamscribe.settings import KafkaSettings, SettingsError
from streamscribe.store.numbers import NumbersTaken

if TYPE_CHECKING:
    from streamscribe.store.redis_sessions import RedisSessions

ASK_EVERY_S = 0.5

_log = get_logger(__name__)


class GatewayNumber:
    """Taken in the store before the gateway hears anything, kept like its sessions' seats, and freed at its end.

    While the store is away nobody takes one, so who has one goes on.
    """

    def __init__(
        self,
        store: "RedisSessions",
        gateway: str,
        keep_every_s: float,
        begin: Callable[[int], int] = randrange,
    ) -> None:
        """`gateway` is its name, which no other has. A number that was not kept for `store.seat_ttl_s` is free.

        Of so many numbers the search begins at that of `begin`: at a store that has lost all, those that gateways have
        look free until these keep them again, and who took the first would end one of them each time.
        """
        self._store = store
        self._gateway = gateway
        self._keep_every_s = keep_every_s
        self._begin = begin
        self._number = -1

    async def take(self, kafka: KafkaSettings, patient: "RedisSessions | None" = None) -> int:
        """The number of the settings, or one that is free. One of a gateway that died is waited for.

        `patient` is asked in place of the store: the same one, with more time for each answer. Raises SettingsError
        where gateways that live have all that would do; StoreUnavailable.
        """
        store = patient or self._store
        wished = kafka.gateway_number
        numbers = range(kafka.result_partitions) if wished < 0 else range(wished, wished + 1)
        middle = numbers.start + self._begin(len(numbers))
        before: NumbersTaken | None = None
        while isinstance(found := await search(store, self._gateway, numbers, middle), NumbersTaken):
            if before is None:
                before = found
                _log.info("waiting for the number of a gateway", component=found.holder)
            elif found.first_ends_us > before.last_ends_us:  # all have been kept since
                raise _taken(wished, len(numbers), found.holder)
            await asyncio.sleep(ASK_EVERY_S)
        self._number = found
        return found

    async def lost(self) -> str:
        """Keeps the number; returns when another gateway has it, with its name."""
        while True:
            await asyncio.sleep(self._keep_every_s)
            with suppress(StoreUnavailable):  # the next time
                found = await self._store.take_number(self._gateway, range(self._number, self._number + 1))
                if isinstance(found, NumbersTaken):
                    self._number = -1
                    return found.holder

    async def free(self) -> None:
        """Another gateway may have it at once."""
        if self._number >= 0:
            with suppress(StoreUnavailable):  # it ends by itself
                await self._store.free_number(self._gateway, self._number)


async def search(store: "RedisSessions", gateway: str, numbers: range, middle: int) -> int | NumbersTaken:
    """Takes the first that is free from `middle` on, and round."""
    found = await store.take_number(gateway, range(middle, numbers.stop))
    if middle == numbers.start or not isinstance(found, NumbersTaken):
        return found
    others = await store.take_number(gateway, range(numbers.start, middle))
    if not isinstance(others, NumbersTaken):
        return others
    first = min(found, others, key=lambda taken: taken.first_ends_us)
    return replace(first, last_ends_us=max(found.last_ends_us, others.last_ends_us))


def _taken(wished: int, count: int, holder: str) -> SettingsError:
    if wished >= 0:
        return SettingsError(
            f"setting kafka.gateway_number: {wished} is that of the gateway {holder}, which runs; "
            "give each gateway its own, or -1 to all"
        )
    return SettingsError(
        f"setting kafka.result_partitions: all {count} are read by gateways that run, and each needs its own; stop one "
        "of them, or give them more: docs/kafka.md, More partitions"
    )
