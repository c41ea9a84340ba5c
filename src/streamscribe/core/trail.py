"""The points of one channel from which another worker could go on: the newest whose past is told."""

from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise

from streamscribe.core.checkpoint import ChannelPoint
from streamscribe.core.input_log import Place
from streamscribe.core.integrity import ensure


@dataclass(frozen=True, slots=True)
class Mark:
    """A point, before which so many segments had `closed`, and the audio that makes it again: from `start` on."""

    point: ChannelPoint
    start: int
    place: Place
    closed: int = 0


class Trail:
    """Counts one channel's segments and knows their ids, from its newest point on whose segments all have last finals.

    It begins at a point, whose `segments` are opened again under the ids that they had. Segments open and close one
    after the other, and are told in that order. What is kept is bounded by the segments that are not told.
    """

    def __init__(self, first: Mark) -> None:
        self._current = first
        self._newest: deque[Mark] = deque()
        self._ids = deque(first.point.segments)
        self._opened = self._closed = self._told = first.closed

    @property
    def start(self) -> int:
        """Where the audio begins that is needed from the current point on."""
        return self._current.start

    @property
    def place(self) -> Place:
        """Where that is in the records."""
        return self._current.place

    @property
    def point(self) -> ChannelPoint:
        """The current point."""
        return replace(self._current.point, segments=tuple(self._ids))

    @property
    def newest(self) -> int:
        """The sample at which the newest point was taken, current or not."""
        return (self._newest[-1] if self._newest else self._current).point.heard

    @property
    def next_id(self) -> int | None:
        """The id that the next segment had when it was opened before; None of a new one."""
        at = self._opened - self._current.closed
        return self._ids[at] if at < len(self._ids) else None

    def open(self, segment_id: int) -> None:
        """The next segment has begun; of one that was opened before under `next_id`."""
        if self.next_id is None:
            self._ids.append(segment_id)
        self._opened += 1

    def close(self) -> None:
        """The open segment has ended."""
        self._closed += 1

    def tell(self) -> None:
        """The last final of the next segment is told, or none will be."""
        self._told += 1
        self._go_on()

    def take(self, point: ChannelPoint, start: int, place: Place) -> None:
        """Another could go on at `point`, after all segments that have ended, once they are told."""
        mark = Mark(point, start, place, self._closed)
        if self._newest and self._newest[-1].closed == mark.closed:
            self._newest.pop()
        self._newest.append(mark)
        self._go_on()

    def _go_on(self) -> None:
        while self._newest and self._newest[0].closed <= self._told:
            mark = self._newest.popleft()
            for _ in range(mark.closed - self._current.closed):
                self._ids.popleft()
            self._current = mark

    def check_integrity(self) -> None:
        """Told <= closed <= opened, of which one is open at most; ids of all since the point; points in order."""
        ensure(self._told <= self._closed <= self._opened <= self._closed + 1, "told <= closed <= opened <= closed + 1")
        ensure(self._opened - self._current.closed <= len(self._ids), "every segment since the point has an id")
        marks = [self._current, *self._newest]
        ensure(all(a.closed < b.closed or a is self._current for a, b in pairwise(marks)), "order")
        ensure(all(mark.closed > self._told for mark in self._newest), "the newest point that is told is current")
        ensure(len(self._newest) <= self._closed - self._told, "points are bounded by what is not told")
