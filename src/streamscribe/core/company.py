"""Who is first in line before a model, and who shares the step: by level, then by tenants' shares, then by rank."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from typing import NamedTuple

from streamscribe.core.fair_share import FairShares, cost_s
from streamscribe.core.waiting import RANK, Group, Lane, Priority

SIGHT = 8
"""So many steps' worth of the line is looked at, so that the choice costs the same however many wait."""


@dataclass(frozen=True, slots=True)
class Line:
    """The order of all that is due: the most urgent `level` goes first, and with it what has aged past the first `rank`
    of that level. Of one level, whose tenant's start tag is lowest; of one tenant, by rank."""

    level: Priority
    rank: tuple[float, int]
    shares: FairShares

    @classmethod
    def of(cls, heads: Iterable[Lane], shares: FairShares) -> "Line":
        """The line of which these are the heads."""
        first = min(heads, key=lambda lane: (lane.urgency.level, lane.urgency.rank))
        return cls(first.urgency.level, first.urgency.rank, shares)

    def level_of(self, lane: Lane) -> Priority:
        """Its own, or where it has aged the first one's."""
        return self.level if lane.urgency.rank < self.rank else lane.urgency.level

    def first(self, heads: Iterable[Lane]) -> Lane:
        """Who goes first."""
        return min(
            heads, key=lambda lane: (self.level_of(lane), self.shares.start(lane.share.tenant), lane.urgency.rank)
        )


class _Next(NamedTuple):
    """The next of a line who may join, and those behind it."""

    level: Priority
    start: float
    distance: float
    rank: tuple[float, int]
    lane: Lane
    behind: Iterator[Lane]


def company(first: Lane, group: Group, line: Line, limit: int, bound_s: float, aging_s: float) -> list[Lane]:
    """The first and who shares its step: of the group, at most `limit`, `bound_s` seconds when padded to the longest.

    Of each level tenants take turns by their shares, which are charged here. Where length matters, of each tenant those
    nearest to the first in length join, who came within `aging_s`; else by rank. Costs the logarithm of the lines for
    each place in the step.
    """
    if bound_s == inf and len({tenant for _, tenant in group.lines}) == 1:
        chosen = sorted(chain.from_iterable(one[:limit] for one in group.lines.values()), key=RANK)[:limit]
        line.shares.charge(first.share, sum(cost_s(lane.head.audio_s) for lane in chosen))
        return chosen
    by_length = bound_s < inf
    length_s = longest_s = first.head.audio_s
    distance = _distance_from(length_s) if by_length else _no_distance
    level_of = _own_level if by_length else line.level_of
    waiting = [_iterate(one, first, group, limit, aging_s, by_length=by_length) for one in group.lines.values()]

    def of(lane: Lane, behind: Iterator[Lane]) -> _Next:
        return _Next(level_of(lane), line.shares.start(lane.share.tenant), distance(lane), lane.rank, lane, behind)

    line.shares.charge(first.share, cost_s(length_s))
    heap = [of(lane, behind) for behind in waiting if (lane := next(behind, None)) is not None]
    heapify(heap)
    chosen = [first]
    while heap and len(chosen) < limit:
        entry = heappop(heap)
        lane, behind = entry.lane, entry.behind
        if line.shares.start(lane.share.tenant) > entry.start:  # the tenant was charged since
            heappush(heap, of(lane, behind))
            continue
        longer_s = max(longest_s, lane.head.audio_s)
        if longer_s * (len(chosen) + 1) <= bound_s:
            chosen.append(lane)
            longest_s = longer_s
            line.shares.charge(lane.share, cost_s(lane.head.audio_s))
        if (following := next(behind, None)) is not None:
            heappush(heap, of(following, behind))
    return chosen


def _iterate(
    line: list[Lane], first: Lane, group: Group, limit: int, aging_s: float, *, by_length: bool
) -> Iterator[Lane]:
    """Those of one line who may join, in the order in which they would."""
    if not by_length:
        return (lane for lane in line if lane is not first)
    line = line[: max(limit, SIGHT * limit // len(group.lines))]
    latest = first.rank[0] + aging_s
    near = line[: bisect_right(line, latest, key=lambda lane: lane.rank[0])]
    near.sort(key=_distance_from(first.head.audio_s))
    return (lane for lane in near if lane is not first)


def _distance_from(length_s: float) -> Callable[[Lane], float]:
    return lambda lane: abs(lane.head.audio_s - length_s)


def _no_distance(lane: Lane) -> float:
    return 0.0


def _own_level(lane: Lane) -> Priority:
    return lane.urgency.level
