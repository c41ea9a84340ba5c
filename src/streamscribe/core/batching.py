"""Which waiting requests make the next model step, and when: the books of one replica, without its thread."""

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf

from streamscribe.core.batch_limit import BatchLimits
from streamscribe.core.company import Line, company
from streamscribe.core.errors import Overloaded
from streamscribe.core.fair_share import FairShares
from streamscribe.core.integrity import ensure
from streamscribe.core.waiting import (
    OVERLOAD_RETRY_S,
    RANK,
    Bounds,
    Group,
    Lane,
    Priority,
    Urgency,
    Waiting,
)

__all__ = ["OVERLOAD_RETRY_S", "BatchPolicy", "Batcher", "Priority", "Waiting"]


LATE_WAITS = 5
LATE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """How requests are gathered.

    A step takes requests of one group: at most `max_batch_size`, and `max_batch_s` seconds of audio when all are
    padded to the longest (one that is longer runs alone). One that is not full waits for others until its oldest
    request has waited `wait_ms`, unless nobody else can join, or one is of a level that waits for nobody: with
    `all_wait` there is none such, for where it is known who comes. One that came more than `LATE_WAITS` such waits
    after its `since` waits a tenth: a stream that is heard again would else wait so long at each of its blocks. At
    most `max_waiting_s` seconds of audio wait; at most `max_inflight` requests wait or run.

    Of one tenant's requests each is passed only by those of a higher priority that come within `aging_s` (a level)
    after it, and, where not all of them fit, by those whose length is nearer to that of the first in line and who come
    within `aging_s`. Between tenants a level is shared by weight (`core.fair_share`), in seconds of audio: one that
    asks for more than its share waits behind those that ask for less.
    """

    max_batch_size: int = 8
    max_batch_s: float = inf
    wait_ms: float = 5.0
    max_waiting_s: float = 600.0
    max_inflight: int = 4096
    aging_s: float = 5.0
    all_wait: bool = False


class Batcher:
    """The queue in front of one model replica, and the count of what is in its step."""

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy
        self._bounds = Bounds(policy.max_inflight, policy.max_waiting_s)
        self._limits = BatchLimits(policy.max_batch_size)
        self._lanes: dict[Hashable, Lane] = {}
        self._groups: dict[Hashable, Group] = {}
        self._lane_of: dict[int, Lane] = {}
        self._shares = FairShares()
        self._waiting_s = 0.0
        self._live_asked, self._live_asked_s = 0, 0.0
        self._running = 0

    def __len__(self) -> int:
        return len(self._lane_of)

    @property
    def waiting_s(self) -> float:
        """Audio seconds that wait."""
        return self._waiting_s

    @property
    def inflight(self) -> int:
        """Requests that wait or run."""
        return len(self._lane_of) + self._running

    def limit(self, group: Hashable, audio_s: float) -> int:
        """How many requests of the group and of this length one step may have now."""
        by_length = self._policy.max_batch_s / audio_s if audio_s > 0 else inf
        return max(1, int(min(self._limits.of(group), by_length)))

    def add(self, item: Waiting) -> Overloaded | None:
        """Lets `item` wait, or says that too much waits already; a single item of any length is taken."""
        refusal = self._bounds.refusal(item.priority, item.audio_s, requests=self.inflight, inside_s=self._waiting_s)
        if refusal is not None:
            return refusal
        key: Hashable = item.id if item.exclusive is None else (item.exclusive,)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, deque((item,)), self._urgency(item))
            self._link(lane)
        else:
            self._join(lane, item)
        self._lane_of[item.id] = lane
        self._waiting_s += item.audio_s
        self._ask(item)
        return None

    def cancel(self, item_id: int) -> bool:
        """Forgets a request; False when it does not wait any more."""
        lane = self._lane_of.get(item_id)
        if lane is None:
            return False
        item = next(item for item in lane.items if item.id == item_id)
        self._unlink(lane)
        lane.items.remove(item)
        self._left(lane, item)
        return True

    def hurry(self, item_id: int, priority: Priority) -> bool:
        """Gives a request that waits a higher priority; False if it has that, or waits no more."""
        lane = self._lane_of.get(item_id)
        if lane is None:
            return False
        at, item = next((at, item) for at, item in enumerate(lane.items) if item.id == item_id)
        if item.priority <= priority:
            return False
        self._unlink(lane)
        lane.items[at] = replace(item, priority=priority)
        if not item.live:
            self._ask(lane.items[at])
        lane.urgency = self._most_urgent(lane.items)
        self._link(lane)
        return True

    def next_timer(self, population: int) -> float | None:
        """When the next batch is due (perhaps already), or None when nothing waits.

        `population` is how many requesters there are, waiting or not: once each of them waits, nobody can join and
        what waits is due at once.
        """
        return min((self._due(group, population) for group in self._groups.values()), default=None)

    def take(self, now: float, population: int) -> tuple[Waiting, ...]:
        """The batch that is due, most urgent first, which runs from now on; empty when none is."""
        due = [group for group in self._groups.values() if self._due(group, population) <= now]
        if not due:
            return ()
        heads = [lane for group in due for lane in group.heads]
        line = Line.of(heads, self._shares)
        first = line.first(heads)
        group = self._groups[first.head.group]
        lanes = self._choose(group, first, line)
        group.unlink_all(lanes)
        if not group.size:
            del self._groups[group.key]
        batch = tuple(lane.items.popleft() for lane in lanes)
        for lane, item in zip(lanes, batch, strict=True):
            self._left(lane, item)
        self._running += len(batch)
        return batch

    def finish(self, batch: Sequence[Waiting]) -> None:
        """A batch that was taken runs no longer."""
        self._running -= len(batch)
        if not self.inflight:
            self._shares.reset()
        self._limits.went_well(batch[0].group, len(batch))

    def shrink(self, group: Hashable, size: int) -> None:
        """A step of `size` requests of the group ran out of memory: from now on steps have fewer."""
        self._limits.shrink(group, size)

    def take_asked(self) -> tuple[int, float]:
        """Requests of live sessions that came since the last call, and their audio seconds, whatever became of them."""
        asked = self._live_asked, self._live_asked_s
        self._live_asked, self._live_asked_s = 0, 0.0
        return asked

    def take_all(self) -> tuple[Waiting, ...]:
        """Everything that waits, no longer waiting, and not to run."""
        items = tuple(item for lane in sorted(self._lanes.values(), key=RANK) for item in lane.items)
        self._lanes.clear()
        self._groups.clear()
        self._lane_of.clear()
        self._waiting_s = 0.0
        return items

    def check_integrity(self) -> None:
        """Each request waits once, in a lane that is as urgent as it says, in one group; seconds and counts sum up."""
        items = [item for lane in self._lanes.values() for item in lane.items]
        grouped = [lane for group in self._groups.values() for lane in group.lanes]
        ensure(sorted(map(id, grouped)) == sorted(map(id, self._lanes.values())), "each lane is in one group")
        ensure(sorted(item.id for item in items) == sorted(self._lane_of), "each request waits once")
        for lane in self._lanes.values():
            ids = [item.id for item in lane.items]
            ensure(ids == sorted(ids), "a lane keeps the order of arrival")
            ensure(lane.urgency == self._most_urgent(lane.items), "a lane is as urgent as the most urgent in it")
        for group in self._groups.values():
            group.check_integrity()
        ensure(abs(sum(item.audio_s for item in items) - self._waiting_s) < 1e-6, "waiting_s == sum of audio_s")
        ensure(0 <= self._running <= self.inflight <= self._policy.max_inflight, "taken >= finished; inflight <= bound")
        self._limits.check_integrity()
        self._shares.check_integrity()

    def _due(self, group: Group, population: int) -> float:
        """When the group's next batch is: at once when it is full or nobody can join."""
        if group.size < self._limits.of(group.key) and len(self._lanes) < population:
            group.refresh()
            if (group.size + 1) * group.longest_s <= self._policy.max_batch_s:
                return group.due
        return min(group.heads, key=RANK).head.arrived

    def _choose(self, group: Group, first: Lane, line: Line) -> list[Lane]:
        """The first in line and who shares its step, by rank; each takes of its tenant's share."""
        self._shares.serve(first.share.tenant)
        limit, policy = self._limits.of(group.key), self._policy
        return sorted(company(first, group, line, limit, policy.max_batch_s, policy.aging_s), key=RANK)

    def _urgency(self, item: Waiting) -> Urgency:
        waits = self._policy.all_wait or item.priority not in (Priority.URGENT, Priority.BULK)
        wait_s = self._policy.wait_ms / 1000 if waits else 0.0
        since = item.arrived if item.since is None else item.since
        if item.arrived - since > LATE_WAITS * wait_s:
            wait_s *= LATE_SHARE
        rank = (since + item.priority * self._policy.aging_s, item.id)
        return Urgency(rank, item.priority, item.arrived + wait_s)

    def _most_urgent(self, items: Iterable[Waiting]) -> Urgency:
        return reduce(Urgency.joined, map(self._urgency, items))

    def _join(self, lane: Lane, item: Waiting) -> None:
        """Lines up behind others of its stream, which it may hurry."""
        urgency = lane.urgency.joined(self._urgency(item))
        if urgency == lane.urgency:
            lane.items.append(item)
            return
        self._unlink(lane)
        lane.items.append(item)
        lane.urgency = urgency
        self._link(lane)

    def _link(self, lane: Lane) -> None:
        key = lane.head.group
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
        group.link(lane)

    def _unlink(self, lane: Lane) -> None:
        group = self._groups[lane.head.group]
        group.unlink(lane)
        if not group.size:
            del self._groups[group.key]

    def _ask(self, item: Waiting) -> None:
        """It came, or became urgent."""
        self._live_asked += item.live
        self._live_asked_s += item.live * item.audio_s

    def _left(self, lane: Lane, item: Waiting) -> None:
        """An item has left its lane, which is in no group now. With nothing left no rounding is kept."""
        del self._lane_of[item.id]
        self._waiting_s = self._waiting_s - item.audio_s if self._lane_of else 0.0
        if lane.items:
            lane.urgency = self._most_urgent(lane.items)
            self._link(lane)
        else:
            del self._lanes[lane.key]
