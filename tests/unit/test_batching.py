"""The batching policy, with a chosen clock."""

import pytest

from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import Overloaded

MANY = 1000


class Queue:
    """A batcher and the numbering of its requests."""

    def __init__(self, **policy: float) -> None:
        self.batcher = Batcher(BatchPolicy(**policy))  # type: ignore[arg-type]
        self.count = 0

    def add(self, at=0.0, priority=Priority.NORMAL, audio_s=1.0, group=None, exclusive=None, since=None):
        self.count += 1
        item = Waiting(self.count, priority, audio_s, at, group, exclusive, since)
        error = self.batcher.add(item)
        self.batcher.check_integrity()
        return error or self.count

    def take(self, now, population=MANY):
        taken = [item.id for item in self.batcher.take(now, population)]
        self.batcher.check_integrity()
        return taken


def test_an_empty_queue_wants_no_timer():
    queue = Queue()
    assert queue.batcher.next_timer(MANY) is None
    assert queue.take(now=9.0) == []


def test_a_full_batch_goes_at_once():
    queue = Queue(max_batch_size=2)
    ids = [queue.add(), queue.add(), queue.add()]
    assert queue.take(now=0.0) == ids[:2]
    assert queue.take(now=0.0) == []


def test_a_batch_that_is_not_full_waits_until_its_oldest_has_waited_long_enough():
    queue = Queue(wait_ms=10)
    first, second = queue.add(at=1.0), queue.add(at=1.008)
    assert queue.take(now=1.009) == []
    assert queue.batcher.next_timer(MANY) == pytest.approx(1.01)
    assert queue.take(now=1.0101) == [first, second]


def test_what_is_late_hardly_waits_and_what_is_not_waits_as_ever():
    queue = Queue(wait_ms=20)
    late = queue.add(at=1.0, since=0.8)
    assert queue.batcher.next_timer(MANY) == pytest.approx(1.002)
    fresh = queue.add(at=1.001, since=0.95)
    assert queue.take(now=1.0021) == [late, fresh]
    queue.add(at=2.0, since=1.95)
    assert queue.batcher.next_timer(MANY) == pytest.approx(2.02)


def test_nobody_waits_when_alone():
    queue = Queue(wait_ms=1000)
    only = queue.add(at=1.0)
    assert queue.take(now=1.0, population=1) == [only]


def test_nobody_waits_once_everybody_is_there():
    queue = Queue(wait_ms=1000)
    both = [queue.add(at=1.0), queue.add(at=1.1)]
    assert queue.take(now=1.1, population=3) == []
    assert queue.take(now=1.1, population=2) == both


def test_a_step_with_something_urgent_waits_for_nobody_and_takes_along_what_is_there():
    queue = Queue(wait_ms=1000)
    chunk = queue.add(at=1.0)
    assert queue.take(now=1.1) == []
    final = queue.add(at=1.2, priority=Priority.URGENT)
    assert queue.take(now=1.2) == [final, chunk]


def test_a_full_group_does_not_wait_for_another_that_is_not():
    queue = Queue(wait_ms=1000, max_batch_size=2)
    lonely = queue.add(at=1.0, group="short")
    pair = [queue.add(at=1.1, group="long"), queue.add(at=1.1, group="long")]
    assert queue.take(now=1.1) == pair
    assert queue.take(now=1.1) == []
    assert queue.take(now=2.1) == [lonely]


def test_a_step_of_segments_is_bounded_in_seconds_padded_to_the_longest():
    queue = Queue(max_batch_s=60)
    ids = [queue.add(audio_s=20) for _ in range(4)]
    assert queue.take(now=0.0) == ids[:3]
    assert queue.take(now=1.0) == ids[3:]


def test_what_is_longer_than_the_bound_runs_alone():
    queue = Queue(max_batch_s=60)
    long, short = queue.add(audio_s=90), queue.add(audio_s=1)
    assert queue.take(now=0.0) == [long]
    assert queue.take(now=1.0) == [short]


def test_segments_of_like_length_share_a_step_where_not_all_fit():
    queue = Queue(max_batch_s=60, max_batch_size=3)
    lengths = (4, 29, 5, 28, 3, 30)
    ids = {length: queue.add(audio_s=length) for length in lengths}
    assert queue.take(now=1.0) == [ids[4], ids[5], ids[3]]
    assert queue.take(now=1.0) == [ids[29], ids[28]]
    assert queue.take(now=1.0) == [ids[30]]


def test_a_like_length_does_not_go_before_what_is_more_urgent():
    queue = Queue(max_batch_s=100, max_batch_size=2)
    first = queue.add(audio_s=4, priority=Priority.URGENT)
    file, other = queue.add(audio_s=4, priority=Priority.BULK), queue.add(audio_s=20, priority=Priority.URGENT)
    assert queue.take(now=1.0) == [first, other]
    assert queue.take(now=1.0) == [file]


def test_after_a_step_out_of_memory_steps_of_that_group_are_half_as_large():
    queue = Queue(max_batch_size=8)
    for _ in range(16):
        queue.add(group="long")
    queue.batcher.shrink("long", 8)
    assert len(queue.take(now=0.0)) == 4
    for _ in range(8):
        queue.add(group="short")
    assert len(queue.take(now=0.0)) == 4
    assert len(queue.take(now=0.0)) == 4
    assert len(queue.take(now=0.0)) == 4
    assert len(queue.take(now=0.0)) == 8


def test_what_waits_or_runs_is_bounded_in_number():
    queue = Queue(max_inflight=4)
    queue.add(audio_s=0)
    running = queue.batcher.take(9.0, MANY)
    for _ in range(3):
        queue.add(audio_s=0)
    assert isinstance(queue.add(audio_s=0), Overloaded)
    queue.batcher.finish(running)
    assert not isinstance(queue.add(audio_s=0), Overloaded)
    assert queue.batcher.inflight == 4


def test_files_and_drafts_take_half_of_the_places():
    queue = Queue(max_inflight=4)
    for _ in range(2):
        assert not isinstance(queue.add(priority=Priority.BULK), Overloaded)
    assert isinstance(queue.add(priority=Priority.BULK), Overloaded)
    assert isinstance(queue.add(priority=Priority.LOW), Overloaded)
    assert not isinstance(queue.add(priority=Priority.NORMAL), Overloaded)


def test_only_one_group_shares_a_step():
    queue = Queue()
    short, long, other = queue.add(group="short"), queue.add(group="long"), queue.add(group="short")
    assert queue.take(now=1.0) == [short, other]
    assert queue.take(now=1.0) == [long]


def test_two_requests_of_one_stream_never_share_a_step_and_keep_their_order():
    queue = Queue()
    ann, ann_later, bob = queue.add(exclusive="ann"), queue.add(exclusive="ann"), queue.add(exclusive="bob")
    assert queue.take(now=1.0) == [ann, bob]
    assert queue.take(now=1.0) == [ann_later]


def test_a_later_urgent_request_hurries_its_stream_but_does_not_overtake_in_it():
    queue = Queue(max_batch_size=1)
    queue.add(exclusive="bob")
    draft = queue.add(exclusive="ann", priority=Priority.LOW)
    final = queue.add(exclusive="ann", priority=Priority.URGENT)
    assert queue.take(now=1.0) == [draft]
    assert queue.take(now=1.0) == [final]


def test_urgent_requests_go_before_drafts():
    queue = Queue(max_batch_size=1)
    draft, final = queue.add(at=0.0, priority=Priority.LOW), queue.add(at=1.0, priority=Priority.URGENT)
    assert queue.take(now=2.0) == [final]
    assert queue.take(now=2.0) == [draft]


def test_finals_do_not_starve_a_draft_beyond_the_aging_bound():
    queue = Queue(max_batch_size=1, aging_s=2)
    draft = queue.add(at=0.0, priority=Priority.LOW)
    for second in range(6):
        final = queue.add(at=float(second), priority=Priority.URGENT)
        assert queue.take(now=float(second)) == [final]
    queue.add(at=6.5, priority=Priority.URGENT)
    assert queue.take(now=6.5) == [draft]


def test_what_waits_is_bounded_in_seconds():
    queue = Queue(max_waiting_s=10)
    for _ in range(10):
        queue.add()
    error = queue.add()
    assert isinstance(error, Overloaded)
    assert error.retry_after_s
    assert queue.batcher.waiting_s == 10


def test_drafts_never_crowd_out_the_rest():
    queue = Queue(max_waiting_s=10)
    for _ in range(5):
        assert not isinstance(queue.add(priority=Priority.LOW), Overloaded)
    assert isinstance(queue.add(priority=Priority.LOW), Overloaded)
    assert not isinstance(queue.add(priority=Priority.URGENT), Overloaded)


def test_a_single_request_longer_than_the_bound_is_taken():
    queue = Queue(max_waiting_s=10)
    assert queue.add(audio_s=30) == 1


def test_cancelled_requests_are_forgotten():
    queue = Queue()
    first, second, third = (queue.add(exclusive="ann") for _ in range(3))
    assert queue.batcher.cancel(second)
    assert not queue.batcher.cancel(second)
    assert queue.take(now=1.0) == [first]
    assert not queue.batcher.cancel(first)
    assert queue.take(now=1.0) == [third]
    assert queue.batcher.waiting_s == 0


def test_taking_all_leaves_nothing():
    queue = Queue()
    ids = {queue.add(exclusive="ann"), queue.add(exclusive="ann"), queue.add()}
    assert {item.id for item in queue.batcher.take_all()} == ids
    queue.batcher.check_integrity()
    assert len(queue.batcher) == 0


def test_what_live_sessions_asked_for_is_told_once_whether_it_waits_runs_or_was_given_up():
    queue = Queue(max_batch_size=1)
    queue.add(audio_s=1.0)
    given_up = queue.add(audio_s=2.0)
    queue.add(audio_s=4.0, priority=Priority.BULK)
    draft = queue.add(audio_s=8.0, priority=Priority.LOW)
    queue.take(now=9.0)
    assert queue.batcher.cancel(given_up)
    assert queue.batcher.take_asked() == (2, 3.0)
    assert queue.batcher.hurry(draft, Priority.URGENT)
    assert queue.batcher.take_asked() == (1, 8.0)
    queue.batcher.take_all()
    assert queue.batcher.take_asked() == (0, 0.0)
