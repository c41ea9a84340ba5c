"""How much of each tenant is on its way to finalizers: the log is read in order, and whoever is in it passes nobody."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from streamscribe.core.gate import Gate
from streamscribe.core.integrity import ensure
from streamscribe.core.waiting import Priority
from streamscribe.models.room import Room


@dataclass(slots=True)
class _Tenant:
    gate: Gate
    room: Room = field(default_factory=Room)
    here: int = 0
    """How many are inside or wait."""

    def enter(self, audio_s: float) -> None:
        if overloaded := self.gate.enter(Priority.URGENT, audio_s):
            raise overloaded


class TenantPlaces:
    """So many requests of each tenant at a time, of so much audio; its others wait in order of coming.

    Of a tenant that has none nothing is kept.
    """

    def __init__(self, max_requests: int, max_audio_s: float) -> None:
        self._bounds = max_requests, max_audio_s
        self._tenants: dict[Hashable, _Tenant] = {}

    @asynccontextmanager
    async def place(self, tenant: Hashable, audio_s: float, *, patient: bool) -> AsyncIterator[None]:
        """Inside. Raises Overloaded where there is no room for one that is not `patient`."""
        its = self._tenants.setdefault(tenant, _Tenant(Gate(*self._bounds)))
        its.here += 1
        try:
            enter = partial(its.enter, audio_s)
            if patient:
                await its.room.enter(Priority.URGENT, enter)
            else:
                enter()
            try:
                yield
            finally:
                its.gate.leave(audio_s)
                its.room.freed()
        finally:
            its.here -= 1
            if not its.here:
                del self._tenants[tenant]

    def check_integrity(self) -> None:
        """Who is kept has something here; inside is part of it."""
        for its in self._tenants.values():
            its.gate.check_integrity()
            ensure(0 <= its.gate.requests <= its.here > 0, "inside <= here, and nobody is kept for nothing")
