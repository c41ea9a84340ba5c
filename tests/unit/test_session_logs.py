"""The two logs of a session: records that become durable, results kept for a resume."""

from dataclasses import replace

import pytest

from streamscribe.core.record_log import RecordLog
from streamscribe.core.records import RulesHit
from streamscribe.core.result_log import ResultLog, size_of
from streamscribe.core.rules import RuleHit, RuleKind
from tests.unit.session_kit import SESSION, result, word


def test_records_are_numbered_without_gaps() -> None:
    log = RecordLog()
    assert [log.number(), log.number(7), log.number()] == [0, 1, 2]
    assert (log.published, log.audio) == (3, 1)
    log.check_integrity()


def test_audio_is_durable_only_once_its_record_is() -> None:
    log = RecordLog()
    log.number()
    log.number(0)
    log.number()
    log.number(1)
    assert log.durable_sequence is None
    assert not log.confirm(0)
    assert log.confirm(1)
    assert log.durable_sequence == 0
    assert not log.confirm(2)
    assert not log.settled
    assert log.confirm(3)
    assert log.durable_sequence == 1
    assert log.settled
    log.check_integrity()


def test_a_confirmation_of_the_past_changes_nothing() -> None:
    log = RecordLog()
    log.number(0)
    log.number(1)
    assert log.confirm(1)
    assert not log.confirm(0)
    assert log.durable_sequence == 1
    assert log.settled
    log.check_integrity()


def test_confirming_what_was_never_published_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="durable < published"):
        RecordLog().confirm(0)


def test_law_3_what_was_told_and_second_finals_are_dropped() -> None:
    log = ResultLog(10_000)
    assert log.add(result(1))
    assert not log.add(result(1))
    assert log.add(result(3, final=True))
    assert not log.add(result(2))
    assert not log.add(result(4))
    assert not log.add(result(5, final=True))
    assert log.add(result(6, final=True, pass_=2))
    assert not log.add(result(7, final=True, pass_=1))
    assert not log.add(result(8, pass_=2))
    assert log.last_version == 3
    log.check_integrity()


def test_law_3_versions_grow_whatever_the_worker_counts() -> None:
    log = ResultLog(10_000)
    told = [log.add(result(count, segment=segment, end_ms=segment)) for segment, count in enumerate((7, 1, 7, 2))]
    assert [one.version for one in told if one is not None] == [1, 2, 3, 4]


def test_a_partial_of_no_more_audio_than_the_client_saw_is_dropped() -> None:
    log = ResultLog(10_000)
    assert log.add(result(1, text="one two", end_ms=2000))
    assert not log.add(result(2, text="one", end_ms=1000))
    assert not log.add(result(3, text="one two", end_ms=2000))
    assert log.add(result(4, text="one two three", end_ms=3000))
    log.check_integrity()


def test_what_was_stable_stays_whoever_tells_the_next_partial() -> None:
    log = ResultLog(10_000)
    log.add(replace(result(1, text="one two three"), stable_chars=7))
    other = log.add(replace(result(2, text="won two three four", words=(word("won", 0, 1),)), stable_chars=3))
    assert other is not None
    assert (other.text, other.stable_chars, other.words) == ("one two three four", 7, ())
    longer = log.add(replace(result(3, text="one two three four five"), stable_chars=3))
    assert longer is not None
    assert longer.stable_chars == 7


def test_an_empty_final_takes_back_what_was_shown_and_is_not_told_where_nothing_was() -> None:
    log = ResultLog(10_000)
    log.add(result(1))
    assert log.add(result(2, final=True, pass_=2, text=""))
    assert not log.add(result(3, segment=1, final=True, text=""))
    assert not log.add(result(4, segment=1))
    second = log.add(result(5, segment=1, final=True, pass_=2))
    assert second is not None
    assert second.version == 3
    assert not log.add(result(6, segment=2, final=True, text=""))
    assert not log.add(result(7, segment=2, final=True, pass_=2, text=""))
    assert log.add(result(8, segment=3, final=True))
    assert log.add(result(9, segment=3, final=True, pass_=2, text=""))
    log.check_integrity()


def test_a_resume_gets_what_it_lacks_in_order_of_versions() -> None:
    log = ResultLog(10_000)
    for item in (result(1), result(2, final=True), result(3, segment=1), result(4, segment=2, final=True)):
        log.add(item)
    missed = log.since(1)
    assert missed is not None
    assert [item.version for item in missed] == [2, 3, 4]
    assert log.since(4) == []


def test_of_partials_the_newest_of_each_segment_is_kept_until_its_final() -> None:
    log = ResultLog(10_000)
    for version, segment in ((1, 0), (2, 1), (3, 0)):
        assert log.add(result(version, segment=segment))
    assert [item.version for item in log.since(0) or []] == [2, 3]
    log.add(result(4, segment=0, final=True))
    assert [item.version for item in log.since(0) or []] == [2, 4]


def test_the_oldest_finals_leave_when_the_bytes_are_used_up_and_are_then_missed() -> None:
    log = ResultLog(2 * size_of(result(1)))
    for version in range(1, 4):
        log.add(result(version, segment=version, final=True))
        log.check_integrity()
    assert log.since(0) is None
    assert [item.version for item in log.since(1) or []] == [2, 3]


def test_law_7_partials_that_never_get_a_final_are_bounded() -> None:
    log = ResultLog(10_000)
    for version in range(1, 100):
        log.add(result(version, segment=version))
    log.check_integrity()
    assert [item.version for item in log.since(0) or []] == list(range(84, 100))


def test_a_version_that_was_never_told_cannot_be_resumed_from() -> None:
    log = ResultLog(10_000)
    assert log.since(1) is None
    assert log.since(-1) is None


def test_words_count_towards_the_bytes() -> None:
    assert size_of(result(1, words=(word("one", 0, 1),))) > size_of(result(1))


def test_law_7_what_is_remembered_of_finals_is_bounded_and_old_segments_stay_closed() -> None:
    log = ResultLog(4096)
    for version in range(1, 3001):
        assert log.add(result(version, segment=version, final=True))
    log.check_integrity()
    assert not log.add(result(3001, segment=5, final=True))
    assert not log.add(result(3002, segment=2990, final=True))
    assert log.add(result(3003, segment=2990, final=True, pass_=2))
    assert log.add(result(3004, segment=3001))


def test_law_7_rule_hits_go_with_the_final_that_they_belong_to() -> None:
    hits = RulesHit(SESSION, 0, 0, (RuleHit("rule", RuleKind.PRODUCT, "x", 0, 1),))
    log = ResultLog(max_bytes=2 * size_of(result(1)) + 500)
    log.expect(hits)
    log.add(result(1, final=True))
    assert log.hits_of(result(1)) == hits
    for version in (2, 3):
        log.add(result(version, segment=version, final=True))
        log.check_integrity()
    assert log.hits_of(result(1)) is None
