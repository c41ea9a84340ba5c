"""Any order of arrivals, departures and steps: the batcher does what a plain list would, and keeps its promises."""

from collections import defaultdict
from dataclasses import replace
from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import Overloaded
from streamscribe.core.fair_share import Share, cost_s

TENANTS = {"ann": Share("acme"), "bob": Share("other", 3), None: Share()}


class Plain:
    """The policy over a list of requests, looked through anew for each question."""

    def __init__(self, policy: BatchPolicy) -> None:
        self.policy = policy
        self.waiting: list[Waiting] = []
        self.limits = defaultdict(lambda: policy.max_batch_size)
        self.virtual = 0.0
        self.finish = {}

    def start(self, lane):
        return max(self.virtual, self.finish.get(lane[0].share.tenant, 0.0))

    def level(self, lane):
        return min(i.priority for i in lane)

    def charge(self, *lanes):
        share = lanes[0][0].share
        cost = sum(cost_s(lane[0].audio_s) for lane in lanes)
        self.finish[share.tenant] = self.start(lanes[0]) + cost / share.weight

    def idle(self):
        self.virtual, self.finish = 0.0, {}

    def lanes(self) -> list[list[Waiting]]:
        """The requests of each stream in order of arrival, most urgent stream first."""
        streams = defaultdict(list)
        for item in self.waiting:
            streams[("alone", item.id) if item.exclusive is None else item.exclusive].append(item)
        return sorted(streams.values(), key=self.rank)

    def rank(self, lane):
        return min((self.since(i) + i.priority * self.policy.aging_s, i.id) for i in lane)

    def since(self, item):
        return item.arrived if item.since is None else item.since

    def groups(self):
        groups = defaultdict(list)
        for lane in self.lanes():
            groups[lane[0].group].append(lane)
        return groups

    def due(self, group, lanes, population):
        room = len(lanes) < self.limits[group] and len(self.lanes()) < population
        longest_s = max(lane[0].audio_s for lane in lanes)
        if not room or (len(lanes) + 1) * longest_s > self.policy.max_batch_s:
            return lanes[0][0].arrived
        waits_s = {Priority.URGENT: 0.0, Priority.BULK: 0.0}
        return min(i.arrived + waits_s.get(i.priority, self.policy.wait_ms / 1000) for lane in lanes for i in lane)

    def next_timer(self, population):
        return min((self.due(group, lanes, population) for group, lanes in self.groups().items()), default=None)

    def take(self, now, population) -> list[Waiting]:
        due = [(g, lanes) for g, lanes in self.groups().items() if self.due(g, lanes, population) <= now]
        if not due:
            return []
        every = [lane for _, lanes in due for lane in lanes]
        level, urgent_rank = min((self.level(lane), self.rank(lane)) for lane in every)

        def aged(lane):
            return level if self.rank(lane) < urgent_rank else self.level(lane)

        first = min(every, key=lambda lane: (aged(lane), self.start(lane), self.rank(lane)))
        group = first[0].group
        others = [lane for lane in self.groups()[group] if lane is not first and lane != first]
        self.virtual = self.start(first)
        chosen = [first]
        by_length = self.policy.max_batch_s < inf
        if by_length:
            others = [x for x in others if self.rank(x)[0] <= self.rank(first)[0] + self.policy.aging_s]
        one_tenant = not by_length and len({lane[0].share.tenant for lane in [first, *others]}) == 1
        if not one_tenant:
            self.charge(first)

        def turn(lane):
            if one_tenant:
                return self.rank(lane)
            if by_length:
                return self.level(lane), self.start(lane), abs(lane[0].audio_s - first[0].audio_s), self.rank(lane)
            return aged(lane), self.start(lane), self.rank(lane)

        while others and len(chosen) < self.limits[group]:
            lane = min(others, key=turn)
            others.remove(lane)
            longest_s = max(one[0].audio_s for one in [*chosen, lane])
            if longest_s * (len(chosen) + 1) <= self.policy.max_batch_s:
                chosen.append(lane)
                if not one_tenant:
                    self.charge(lane)
        if one_tenant:
            self.charge(*chosen)
        batch = [lane[0] for lane in sorted(chosen, key=self.rank)]
        self.waiting = [item for item in self.waiting if item not in batch]
        return batch


class BatchingMachine(RuleBasedStateMachine):
    @initialize(
        max_batch_s=st.sampled_from([inf, 10.0]),
        wait_ms=st.sampled_from([0, 1000]),
        aging_s=st.sampled_from([0, 5]),
        shared=st.booleans(),
    )
    def a_policy(self, max_batch_s, wait_ms, aging_s, shared):
        self.shared = shared
        self.policy = BatchPolicy(3, max_batch_s, wait_ms, max_waiting_s=20, max_inflight=12, aging_s=aging_s)
        self.batcher, self.plain = Batcher(self.policy), Plain(self.policy)
        self.running: list[tuple[Waiting, ...]] = []
        self.now = 0.0
        self.next_id = 0

    @property
    def waiting(self):
        return self.plain.waiting

    @property
    def inflight(self):
        return len(self.waiting) + sum(map(len, self.running))

    @rule(
        priority=st.sampled_from(Priority),
        audio_s=st.sampled_from([0.1, 1.0, 3.0, 7.5]),
        group=st.sampled_from(["short", "long"]),
        exclusive=st.sampled_from([None, None, "ann", "bob"]),
        waited_s=st.sampled_from([None, None, 0.0, 4.0]),
    )
    def law_7_a_request_waits_or_is_refused_by_the_bound(self, priority, audio_s, group, exclusive, waited_s):
        since = None if waited_s is None else self.now - waited_s
        share = TENANTS[exclusive] if self.shared else Share()
        item = Waiting(self.next_id, priority, audio_s, self.now, group, exclusive, since, share)
        self.next_id += 1
        share = 0.5 if priority >= Priority.BULK else 1.0
        waiting_s = sum(other.audio_s for other in self.waiting)
        crowded = self.inflight >= self.policy.max_inflight * share
        refused = crowded or (bool(self.waiting) and waiting_s + audio_s > self.policy.max_waiting_s * share + 1e-9)
        assert isinstance(self.batcher.add(item), Overloaded) == refused
        if not refused:
            self.waiting.append(item)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_requester_leaves(self, data):
        item = data.draw(st.sampled_from(self.waiting))
        assert self.batcher.cancel(item.id)
        assert not self.batcher.cancel(item.id)
        self.waiting.remove(item)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), priority=st.sampled_from(Priority))
    def somebody_more_urgent_wants_it_too(self, data, priority):
        at = data.draw(st.integers(0, len(self.waiting) - 1))
        assert self.batcher.hurry(self.waiting[at].id, priority) == (priority < self.waiting[at].priority)
        if priority < self.waiting[at].priority:
            self.waiting[at] = replace(self.waiting[at], priority=priority)

    @rule(population=st.integers(0, 6))
    def law_2_a_step_takes_each_stream_in_order_once(self, population):
        before = list(self.waiting)
        assert self.batcher.next_timer(population) == self.plain.next_timer(population)
        batch = self.batcher.take(self.now, population)
        assert list(batch) == self.plain.take(self.now, population)
        if not batch:
            return
        self.running.append(batch)
        assert len({item.group for item in batch}) == 1
        streams = [item.exclusive for item in batch if item.exclusive is not None]
        assert len(streams) == len(set(streams))
        for item in batch:
            assert item.exclusive is None or item.id == min(i.id for i in before if i.exclusive == item.exclusive)
        self.law_7_nobody_is_passed_for_ever(batch, before)

    def law_7_nobody_is_passed_for_ever(self, batch, before):
        """What stays behind is not older, by its level, than what goes by more than the aging."""
        for taken in batch:
            hurried = [i for i in before if i == taken or (i.exclusive and i.exclusive == taken.exclusive)]
            latest, _ = self.plain.rank(hurried)
            for other in self.waiting:
                if other.exclusive is None and other.group == taken.group and other.share == taken.share:
                    mine = self.plain.since(other) + other.priority * self.policy.aging_s
                    assert mine >= latest - self.policy.aging_s

    @precondition(lambda self: self.running)
    @rule(data=st.data(), out_of_memory=st.booleans())
    def a_step_ends(self, data, out_of_memory):
        batch = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        if out_of_memory:
            group, limits = batch[0].group, self.plain.limits
            self.batcher.shrink(group, len(batch))
            limits[group] = min(limits[group], max(1, len(batch) // 2))
        self.batcher.finish(batch)
        if not self.inflight:
            self.plain.idle()

    @precondition(lambda self: self.next_id > 20)
    @rule()
    def the_replica_stops(self):
        assert sorted(item.id for item in self.batcher.take_all()) == [item.id for item in self.waiting]
        self.waiting.clear()

    @invariant()
    def the_books_are_right(self):
        self.batcher.check_integrity()
        assert len(self.batcher) == len(self.waiting)
        assert self.batcher.inflight == self.inflight


TestBatching = BatchingMachine.TestCase
