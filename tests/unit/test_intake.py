"""The ledger of numbered items."""

import pytest

from streamscribe.core.errors import BadRequest, SequenceGap
from streamscribe.core.intake import DUPLICATE, MAX_SEQUENCE, Intake


def client_intake(window: int = 4, window_bytes: int = 100) -> Intake[str]:
    return Intake(window=window, window_bytes=window_bytes, gap_timeout_s=2.0, firsts=(0, 1))


@pytest.mark.parametrize("first", [0, 1])
def test_a_stream_may_begin_with_zero_or_one(first: int) -> None:
    intake = client_intake()
    assert intake.next_sequence == 0
    assert intake.offer(first, "a", 1, 0.0) == ["a"]
    assert intake.next_sequence == first + 1


def test_a_stream_that_begins_elsewhere_is_refused_and_leaves_no_trace() -> None:
    intake = client_intake()
    refused = intake.offer(2, "a", 1, 0.0)
    assert isinstance(refused, BadRequest)
    assert refused.message == "the first sequence must be 0 or 1"
    assert intake.offer(0, "a", 1, 0.0) == ["a"]


def test_items_in_order_pass_at_once() -> None:
    intake = client_intake()
    assert [intake.offer(i, str(i), 1, 0.0) for i in range(3)] == [["0"], ["1"], ["2"]]
    assert intake.next_timer() is None
    assert intake.released == 3


def test_early_items_are_held_and_released_in_order() -> None:
    intake = client_intake()
    intake.offer(0, "a", 1, 0.0)
    assert intake.offer(3, "d", 1, 0.0) == []
    assert intake.offer(2, "c", 1, 1.0) == []
    assert intake.holding
    intake.check_integrity()
    assert intake.offer(1, "b", 1, 1.5) == ["b", "c", "d"]
    assert not intake.holding
    intake.check_integrity()


def test_a_repeated_item_is_a_duplicate_whether_released_or_held() -> None:
    intake = client_intake()
    assert not intake.has(0)
    intake.offer(0, "a", 1, 0.0)
    intake.offer(2, "c", 1, 0.0)
    assert intake.offer(0, "a", 1, 0.0) is DUPLICATE
    assert intake.offer(2, "c", 1, 0.0) is DUPLICATE
    assert intake.has(2)
    assert not intake.has(1)
    intake.check_integrity()


def test_zero_after_a_stream_that_began_with_one_is_a_duplicate() -> None:
    intake = client_intake()
    intake.offer(1, "b", 1, 0.0)
    assert intake.offer(0, "a", 1, 0.0) is DUPLICATE


def test_an_item_beyond_the_window_is_a_gap_that_names_the_missing_sequence() -> None:
    intake = client_intake(window=2)
    intake.offer(0, "a", 1, 0.0)
    assert intake.offer(3, "d", 1, 0.0) == []
    gap = intake.offer(4, "e", 1, 0.0)
    assert isinstance(gap, SequenceGap)
    assert gap.message == "sequence 1 is missing"


def test_held_bytes_are_bounded_too() -> None:
    intake = client_intake(window_bytes=10)
    intake.offer(0, "a", 1, 0.0)
    assert intake.offer(2, "c", 10, 0.0) == []
    assert isinstance(intake.offer(3, "d", 1, 0.0), SequenceGap)
    intake.check_integrity()


def test_the_gap_timer_runs_from_the_first_held_item_and_anew_for_a_later_gap() -> None:
    intake = client_intake()
    intake.offer(0, "a", 1, 0.0)
    intake.offer(2, "c", 1, 5.0)
    intake.offer(4, "e", 1, 6.0)
    assert intake.next_timer() == 7.0
    assert intake.offer(1, "b", 1, 6.5) == ["b", "c"]
    assert intake.next_timer() == 8.5
    intake.check_integrity()


def test_what_is_held_can_be_forgotten_and_comes_again() -> None:
    intake = client_intake()
    intake.offer(0, "a", 1, 0.0)
    intake.offer(2, "c", 7, 0.0)
    assert intake.forget_held() == 7
    assert intake.next_timer() is None
    assert [intake.offer(1, "b", 1, 1.0), intake.offer(2, "c", 7, 1.0)] == [["b"], ["c"]]
    intake.check_integrity()


def test_sequences_are_uint32() -> None:
    refused = client_intake().offer(MAX_SEQUENCE + 1, "a", 1, 0.0)
    assert isinstance(refused, BadRequest)
    assert refused.field == "sequence"


def test_with_a_window_of_zero_duplicates_are_dropped_and_gaps_are_told_at_once() -> None:
    intake: Intake[str] = Intake()
    assert intake.offer(0, "opened", 0, 0.0) == ["opened"]
    assert intake.offer(0, "opened", 0, 0.0) is DUPLICATE
    assert isinstance(intake.offer(2, "later", 0, 0.0), SequenceGap)
    assert intake.offer(1, "next", 0, 0.0) == ["next"]


def test_a_stream_that_goes_on_where_another_stood_takes_what_comes_next_and_nothing_from_before() -> None:
    intake: Intake[str] = Intake(next_sequence=7)
    assert intake.offer(6, "old", 1, 0.0) is DUPLICATE
    assert intake.offer(7, "next", 1, 0.0) == ["next"]
    assert isinstance(intake.offer(9, "early", 1, 0.0), SequenceGap)
    assert intake.released == 1
    intake.check_integrity()
