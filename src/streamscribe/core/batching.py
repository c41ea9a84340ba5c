"""Which waiting requests make the next model step, and when: the books of one replica, without its thread."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter

from streamscribe.core.errors import Overloaded
from streamscribe.core.integrity import ensure

OVERLOAD_RETRY_S = 2.0
_LOW_SHARE = 0.5


class Priority(IntEnum):
    """Who goes first: each level stands `aging_s` behind the one above, so that nobody waits for ever."""

    URGENT = 0
    """What a person waits for: the finals of a live session."""
    NORMAL = 1
    """The chunks of a live session: voice activity detection, first pass."""
    BULK = 2
    """All that a file asks for. It is never dropped, but nobody waits for it. It may fill half of what may wait."""
    LOW = 3
    """Drafts, which the next draft replaces. They may fill only half of what may wait."""


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """How requests are gathered.

    A step takes at most `max_batch_size`; one that is not full waits for others until its oldest request has waited
    `wait_ms`. At most `max_waiting_s` seconds of audio wait. A request is passed only by those of a higher priority
    that come within `aging_s` (a level) after it.
    """

    max_batch_size: int = 8
    wait_ms: float = 5.0
    max_waiting_s: float = 600.0
    aging_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request that waits. `id` grows with arrival. Only requests of one `group` (shape) share a step; those of one
    `exclusive` key (a stream's state) run one a step, in order of arrival."""

    id: int
    priority: Priority
    audio_s: float
    arrived: float
    group: Hashable = None
    exclusive: Hashable = None


@dataclass(slots=True)
class _Lane:
    """Requests that run one after the other; as urgent as the most urgent of them. Bounded by `max_waiting_s`."""

    key: Hashable
    rank: tuple[float, int] = (0.0, 0)
    items: deque[Waiting] = field(default_factory=deque)


_RANK = attrgetter("rank")


class Batcher:
    """The queue in front of one model replica."""

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy
        self._lanes: dict[Hashable, _Lane] = {}
        self._order: list[_Lane] = []
        self._lane_of: dict[int, _Lane] = {}
        self._waiting_s = 0.0

    def __len__(self) -> int:
        return len(self._lane_of)

    @property
    def waiting_s(self) -> float:
        """Audio seconds that wait."""
        return self._waiting_s

    def add(self, item: Waiting) -> Overloaded | None:
        """Lets `item` wait, or says that too much waits already; a single item of any length is taken."""
        bound_s = self._policy.max_waiting_s * (_LOW_SHARE if item.priority >= Priority.BULK else 1.0)
        if self._lane_of and self._waiting_s + item.audio_s > bound_s:
            return Overloaded(retry_after_s=OVERLOAD_RETRY_S)
        key: Hashable = item.id if item.exclusive is None else (item.exclusive,)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        else:
            self._unlink(lane)
        lane.items.append(item)
        self._lane_of[item.id] = lane
        self._waiting_s += item.audio_s
        self._link(lane)
        return None

    def cancel(self, item_id: int) -> bool:
        """Forgets a request; False when it does not wait any more."""
        lane = self._lane_of.get(item_id)
        if lane is None:
            return False
        self._remove(lane, next(item for item in lane.items if item.id == item_id))
        return True

    def next_timer(self, population: int) -> float | None:
        """When the next batch is due (perhaps already), or None when nothing waits.

        `population` is how many requesters there are, waiting or not: once each of them waits, nobody can join and
        the batch is due at once.
        """
        batch = self._candidates()
        if not batch:
            return None
        oldest = min(item.arrived for item in batch)
        joinable = len(batch) < self._policy.max_batch_size and len(self._lanes) < population
        return oldest + self._policy.wait_ms / 1000 if joinable else oldest

    def take(self, now: float, population: int) -> tuple[Waiting, ...]:
        """The batch that is due, most urgent first, no longer waiting; empty when none is."""
        due = self.next_timer(population)
        if due is None or now < due:
            return ()
        batch = self._candidates()
        for item in batch:
            self._remove(self._lane_of[item.id], item)
        return batch

    def take_all(self) -> tuple[Waiting, ...]:
        """Everything that waits, no longer waiting."""
        items = tuple(item for lane in self._order for item in lane.items)
        self._lanes.clear()
        self._order.clear()
        self._lane_of.clear()
        self._waiting_s = 0.0
        return items

    def check_integrity(self) -> None:
        """Each request waits in exactly one lane, in order; lanes are sorted by rank; seconds sum up."""
        items = [item for lane in self._order for item in lane.items]
        ensure(
            {lane.key: id(lane) for lane in self._order} == {k: id(v) for k, v in self._lanes.items()}, "lanes agree"
        )
        ensure(sorted(item.id for item in items) == sorted(self._lane_of), "each request waits once")
        ensure(all(lane.items for lane in self._order), "no lane is empty")
        ensure(all(lane.rank == self._rank(lane) for lane in self._order), "a lane ranks as its most urgent request")
        ensure(self._order == sorted(self._order, key=_RANK), "lanes are sorted")
        for lane in self._order:
            ids = [item.id for item in lane.items]
            ensure(ids == sorted(ids), "a lane keeps the order of arrival")
        ensure(abs(sum(item.audio_s for item in items) - self._waiting_s) < 1e-6, "waiting_s == sum of audio_s")

    def _candidates(self) -> tuple[Waiting, ...]:
        """The heads of the first lanes, all of the very first one's group."""
        batch: list[Waiting] = []
        for lane in self._order:
            head = lane.items[0]
            if not batch or head.group == batch[0].group:
                batch.append(head)
                if len(batch) == self._policy.max_batch_size:
                    break
        return tuple(batch)

    def _rank(self, lane: _Lane) -> tuple[float, int]:
        return min((item.arrived + item.priority * self._policy.aging_s, item.id) for item in lane.items)

    def _link(self, lane: _Lane) -> None:
        lane.rank = self._rank(lane)
        insort(self._order, lane, key=_RANK)

    def _unlink(self, lane: _Lane) -> None:
        del self._order[bisect_left(self._order, lane.rank, key=_RANK)]

    def _remove(self, lane: _Lane, item: Waiting) -> None:
        self._unlink(lane)
        lane.items.remove(item)
        del self._lane_of[item.id]
        self._waiting_s = self._waiting_s - item.audio_s if self._lane_of else 0.0
        if lane.items:
            self._link(lane)
        else:
            del self._lanes[lane.key]
