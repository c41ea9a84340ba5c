"""What a session tells in order while its parts get ready in any order: finals, and the answers to flushes."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from streamscribe.core.integrity import ensure

Tell = Callable[[], None]


@dataclass(slots=True, eq=False)
class Place:
    """A place in the line; `tell` is set when its turn may come."""

    tell: Tell | None = None


class Line:
    """Tells what is ready, first come first told; at most `max_places` wait, then `room` does.

    Joined = told + waiting; the first that waits is never ready.
    """

    def __init__(self, max_places: int) -> None:
        self._max_places = max_places
        self._places: deque[Place] = deque()
        self._joined = 0
        self._told = 0
        self._freed: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._places)

    async def room(self) -> None:
        """Returns when a place is free; for one caller, which does not suspend while there is one."""
        while len(self._places) >= self._max_places:
            self._freed = asyncio.get_running_loop().create_future()
            await self._freed

    def join(self) -> Place:
        """Takes the last place."""
        place = Place()
        self._places.append(place)
        self._joined += 1
        return place

    def ready(self, place: Place, tell: Tell) -> None:
        """`tell` is called when all before it have been told, perhaps at once."""
        place.tell = tell
        while self._places and (turn := self._places[0].tell) is not None:
            self._places.popleft()
            self._told += 1
            turn()
        if self._freed is not None and not self._freed.done() and len(self._places) < self._max_places:
            self._freed.set_result(None)

    def check_integrity(self) -> None:
        """Joined = told + waiting; nobody waits whose turn it is."""
        ensure(self._joined == self._told + len(self._places), "joined == told + waiting")
        ensure(not self._places or self._places[0].tell is None, "the first that waits is not ready")
