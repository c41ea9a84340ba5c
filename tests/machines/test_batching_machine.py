"""Any order of arrivals, departures and steps keeps the batcher's promises."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import Overloaded

POLICY = BatchPolicy(max_batch_size=3, wait_ms=1000, max_waiting_s=20, aging_s=5)


class BatchingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.batcher = Batcher(POLICY)
        self.now = 0.0
        self.next_id = 0
        self.waiting: dict[int, Waiting] = {}

    @rule(
        priority=st.sampled_from(Priority),
        audio_s=st.sampled_from([0.1, 1.0, 7.5]),
        group=st.sampled_from(["short", "long"]),
        exclusive=st.sampled_from([None, "ann", "bob"]),
    )
    def law_7_a_request_waits_or_is_refused_by_the_bound(self, priority, audio_s, group, exclusive):
        item = Waiting(self.next_id, priority, audio_s, self.now, group, exclusive)
        self.next_id += 1
        before = sum(other.audio_s for other in self.waiting.values())
        error = self.batcher.add(item)
        bound = POLICY.max_waiting_s / (2 if priority >= Priority.BULK else 1)
        if isinstance(error, Overloaded):
            assert self.waiting
            assert before + audio_s > bound - 1e-6
        else:
            assert not self.waiting or before + audio_s <= bound + 1e-6
            self.waiting[item.id] = item

    @rule(seconds=st.floats(0, 3))
    def time_passes(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_requester_leaves(self, data):
        item_id = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.batcher.cancel(item_id)
        del self.waiting[item_id]

    @rule(population=st.integers(0, 6))
    def law_2_a_step_takes_each_stream_in_order_once(self, population):
        due = self.batcher.next_timer(population)
        batch = self.batcher.take(self.now, population)
        assert bool(batch) == (due is not None and due <= self.now)
        assert len(batch) <= POLICY.max_batch_size
        assert len({item.group for item in batch}) <= 1
        streams = [item.exclusive for item in batch if item.exclusive is not None]
        assert len(streams) == len(set(streams))
        for item in batch:
            if item.exclusive is not None:
                assert item.id == min(i.id for i in self.waiting.values() if i.exclusive == item.exclusive)
            self.law_7_nobody_is_passed_for_ever(item, batch)
        for item in batch:
            del self.waiting[item.id]

    def law_7_nobody_is_passed_for_ever(self, taken, batch):
        """Of the same group, what stays behind is not older than what goes by more than the aging of its levels."""
        hurried = [i for i in self.waiting.values() if i.exclusive is not None and i.exclusive == taken.exclusive]
        latest = min(i.arrived + i.priority * POLICY.aging_s for i in [taken, *hurried])
        for other in self.waiting.values():
            if other not in batch and other.exclusive is None and other.group == taken.group:
                assert other.arrived + other.priority * POLICY.aging_s >= latest

    @invariant()
    def the_books_are_right(self):
        self.batcher.check_integrity()
        assert len(self.batcher) == len(self.waiting)


TestBatching = BatchingMachine.TestCase
