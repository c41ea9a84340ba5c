"""What a session tells in order while its parts get ready in any order: finals, and the answers to flushes."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from streamscribe.core.integrity import ensure

Tell = Callable[[], None]


@dataclass(slots=True, eq=False)
class Place:
    """A place in the line, and the seconds of audio held for it; `tell` is set when its turn may come."""

    audio_s: float = 0.0
    tell: Tell | None = None


class Line:
    """Tells what is ready, first come first told; while `max_places` or `max_audio_s` wait, `room` does.

    Joined = told + waiting; the first that waits is never ready.
    """

    def __init__(self, max_places: int, max_audio_s: float = inf) -> None:
        self._max_places = max_places
        self._max_audio_s = max_audio_s
        self._audio_s = 0.0
        self._places: deque[Place] = deque()
        self._joined = 0
        self._told = 0
        self._freed: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)

    @property
    def full(self) -> bool:
        """Whether no more may join."""
        return len(self._places) >= self._max_places or self._audio_s >= self._max_audio_s

    async def room(self) -> None:
        """Returns when a place is free; for one caller, which does not suspend while there is one."""
        while self.full:
            self._freed = asyncio.get_running_loop().create_future()
            await self._freed

    def join(self, audio_s: float = 0.0) -> Place:
        """Takes the last place, for something that holds so much audio."""
        place = Place(audio_s)
        self._places.append(place)
        self._audio_s += audio_s
        self._joined += 1
        return place

    def ready(self, place: Place, tell: Tell) -> None:
        """`tell` is called when all before it have been told, perhaps at once."""
        place.tell = tell
        while self._places and (turn := self._places[0].tell) is not None:
            self._audio_s -= self._places.popleft().audio_s
            self._told += 1
            turn()
        if not self._places:
            self._audio_s = 0.0  # whatever rounding has left
        if self._freed is not None and not self._freed.done() and not self.full:
            self._freed.set_result(None)

    def check_integrity(self) -> None:
        """Joined = told + waiting, in seconds too; nobody waits whose turn it is."""
        ensure(self._joined == self._told + len(self._places), "joined == told + waiting")
        ensure(abs(sum(place.audio_s for place in self._places) - self._audio_s) < 1e-6, "audio_s == sum of places")
        ensure(not self._places or self._places[0].tell is None, "the first that waits is not ready")
