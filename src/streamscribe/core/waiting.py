"""Requests that wait: in lanes by stream, in groups by shape, in lines by level and tenant, each by rank."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from math import inf
from operator import attrgetter
from typing import NamedTuple

from streamscribe.core.errors import Overloaded
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.core.integrity import ensure

BULK_SHARE = 0.5
"""What files and drafts may fill of what may wait, so that there is always room for a live session's finals."""
OVERLOAD_RETRY_S = 2.0
"""When to come back where there is no room."""
ROUNDING_S = 1e-9
"""What sums of seconds may be off by."""


class Priority(IntEnum):
    """Who goes first: each level stands `aging_s` behind the one above, so that nobody waits for ever."""

    URGENT = 0
    """What a person waits for: the finals of a live session. A step that has one waits for nobody."""
    NORMAL = 1
    """The chunks of a live session: voice activity detection, first pass."""
    BULK = 2
    """All that a file asks for: never dropped, but nobody waits for it, and it for nobody: a file's blocks come one
    after the other, and its segments have gathered. It may fill only half of what may wait."""
    LOW = 3
    """Drafts, which the next draft replaces. They may fill only half of what may wait."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may be inside: requests, and seconds of audio, of which a single request may have any number.

    Files and drafts may fill half of both.
    """

    max_requests: int
    max_audio_s: float

    def refusal(self, priority: Priority, audio_s: float, *, requests: int, inside_s: float) -> Overloaded | None:
        """Why one more has no room beside so many; None where it has."""
        share = BULK_SHARE if priority >= Priority.BULK else 1.0
        too_long = inside_s > 0 and inside_s + audio_s > self.max_audio_s * share + ROUNDING_S
        if too_long or requests >= self.max_requests * share:
            return Overloaded(retry_after_s=OVERLOAD_RETRY_S)
        return None


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request that waits. `id` grows with arrival. Only requests of one `group` (shape) share a step; those of one
    `exclusive` key (a stream's state) run one a step, in order of arrival. With `since`, an earlier time, it stands in
    line as if it had come then: the next step of a request that has waited before. Those of one key have one `share`.
    """

    id: int
    priority: Priority
    audio_s: float
    arrived: float
    group: Hashable = None
    exclusive: Hashable = None
    since: float | None = None
    share: Share = NOBODYS

    @property
    def live(self) -> bool:
        """Whether a live session needs it: drafts are left out, of which there are as many as there is time for."""
        return self.priority <= Priority.NORMAL


class Urgency(NamedTuple):
    """How urgent a request is: its place in line, its level, and when it needs no longer wait for company."""

    rank: tuple[float, int]
    level: Priority
    due: float

    def joined(self, other: "Urgency") -> "Urgency":
        """The more urgent of both in each respect."""
        return Urgency(min(self.rank, other.rank), min(self.level, other.level), min(self.due, other.due))


@dataclass(slots=True, eq=False)
class Lane:
    """Requests that run one after the other, at least one; as urgent as the most urgent of them.

    Bounded by the queue's `max_inflight`.
    """

    key: Hashable
    items: deque[Waiting]
    urgency: Urgency

    @property
    def head(self) -> Waiting:
        """The only one that may run now."""
        return self.items[0]

    @property
    def rank(self) -> tuple[float, int]:
        """Its place in line."""
        return self.urgency.rank

    @property
    def share(self) -> Share:
        """Whose time it takes."""
        return self.items[0].share

    @property
    def line(self) -> tuple[Priority, Hashable]:
        """In which line it stands: by its level and tenant."""
        return self.urgency.level, self.items[0].share.tenant


RANK = attrgetter("urgency.rank")


@dataclass(slots=True, eq=False)
class Group:
    """Lanes whose heads may share a step, in lines by rank; when the first of them is due, and their longest head.

    Linking and unlinking cost the logarithm of the lanes. After lanes have left, `refresh` looks at all of them once
    before `due` and `longest_s` are read.
    """

    key: Hashable
    lines: dict[tuple[Priority, Hashable], list[Lane]] = field(default_factory=dict)
    size: int = 0
    due: float = inf
    longest_s: float = 0.0
    _stale: bool = False

    @property
    def lanes(self) -> Iterator[Lane]:
        """All of them."""
        return chain.from_iterable(self.lines.values())

    @property
    def heads(self) -> list[Lane]:
        """The first of each line."""
        return [line[0] for line in self.lines.values()]

    def link(self, lane: Lane) -> None:
        """Puts a lane in line."""
        insort(self.lines.setdefault(lane.line, []), lane, key=RANK)
        self.size += 1
        self._meet(lane)

    def unlink(self, lane: Lane) -> None:
        """Takes a lane out of its line."""
        line = self.lines[lane.line]
        del line[bisect_left(line, lane.rank, key=RANK)]
        self._keep(lane.line, line)
        self.size -= 1
        self._stale = True

    def unlink_all(self, lanes: list[Lane]) -> None:
        """Takes many out at once."""
        leaving = set(map(id, lanes))
        for key in {lane.line for lane in lanes}:
            self._keep(key, [lane for lane in self.lines[key] if id(lane) not in leaving])
        self.size -= len(lanes)
        self._stale = True

    def refresh(self) -> None:
        """Makes `due` and `longest_s` true."""
        if self._stale:
            self.due, self.longest_s, self._stale = inf, 0.0, False
            for lane in self.lanes:
                self._meet(lane)

    def check_integrity(self) -> None:
        """Lanes are in their lines, their heads are of the group, and what is known of them is true."""
        ensure(self.size > 0 and all(self.lines.values()), "no group and no line is empty")
        ensure(self.size == sum(map(len, self.lines.values())), "size == sum of lines")
        ensure(all(lane.items and lane.head.group == self.key for lane in self.lanes), "heads are of one shape")
        for key, line in self.lines.items():
            ensure(line == sorted(line, key=RANK), "lines are sorted")
            ensure(all(lane.line == key for lane in line), "each lane stands in the line of its level and tenant")
        self.refresh()
        ensure(self.due == min(lane.urgency.due for lane in self.lanes), "due == the first lane's that is due")
        ensure(self.longest_s == max(lane.head.audio_s for lane in self.lanes), "longest == the longest head")

    def _keep(self, key: tuple[Priority, Hashable], line: list[Lane]) -> None:
        if line:
            self.lines[key] = line
        else:
            del self.lines[key]

    def _meet(self, lane: Lane) -> None:
        self.due = min(self.due, lane.urgency.due)
        self.longest_s = max(self.longest_s, lane.head.audio_s)
