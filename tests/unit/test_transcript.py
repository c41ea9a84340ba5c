"""The ledger of a session's text."""

import pytest

from streamscribe.core.results import Result, ResultType
from streamscribe.core.transcript import Transcript, clamp, continue_from
from tests.unit.session_kit import word


class Segment:
    """One open segment, with what a worker would say of it."""

    def __init__(self, last_pass: int = 2) -> None:
        self.transcript = Transcript(last_pass)
        self.id = self.transcript.open_segment(0, 1000)

    def hears(self, text: str, end_ms: int = 2000) -> Result | None:
        result = self.transcript.partial(self.id, text, end_ms, sequence=7)
        self.transcript.check_integrity()
        return result

    def concludes(self, text: str, pass_: int = 1) -> Result | None:
        result = self.transcript.final(self.id, pass_, text, 3000, sequence=9, confidence=0.5, language="en")
        self.transcript.check_integrity()
        return result


def stable(result: Result | None) -> str:
    assert result is not None
    return result.text[: result.stable_chars]


def test_a_partial_carries_its_segment_and_a_version() -> None:
    result = Segment().hears("hello")
    assert result is not None
    assert (result.type, result.pass_, result.version, result.channel) == (ResultType.PARTIAL, 1, 1, 0)
    assert (result.start_ms, result.end_ms, result.sequence, result.stable_chars) == (1000, 2000, 7, 0)


def test_what_two_decodes_agree_on_is_stable_up_to_a_words_end() -> None:
    segment = Segment()
    segment.hears("the quick bro")
    assert stable(segment.hears("the quick brown fo")) == "the quick"
    assert stable(segment.hears("the quick brown fox jumps")) == "the quick brown"


def test_chinese_is_stable_by_the_character() -> None:
    segment = Segment()
    segment.hears("今天天")
    assert stable(segment.hears("今天天气真")) == "今天天"
    assert stable(segment.hears("今天天气很好")) == "今天天气"


def test_the_stable_prefix_never_shrinks() -> None:
    segment = Segment()
    for text in ("one two three", "one two three", "one too tree", "won"):
        segment.hears(text)
    assert stable(segment.hears("one two three four")) == "one two three"
    assert stable(segment.hears("one two threefold")) == "one two three"


def test_a_decode_that_contradicts_goes_on_after_as_many_words() -> None:
    segment = Segment()
    segment.hears("we meat on")
    segment.hears("we meat on")
    result = segment.hears("we meet on Monday")
    assert result is not None
    assert result.text == "we meat on Monday"


def test_the_same_partial_again_costs_no_version() -> None:
    segment = Segment()
    segment.hears("hello")
    assert segment.hears("hello") is not None  # it is stable now
    assert segment.hears("hello", end_ms=2500) is None
    assert segment.transcript.version == 2


def test_words_of_a_rebuilt_partial_are_left_out() -> None:
    segment = Segment()
    segment.hears("we meat")
    segment.hears("we meat")
    words = (word("we", 1000, 1100), word("meet", 1100, 1300), word("now", 1300, 1500))
    result = segment.transcript.partial(segment.id, "we meet now", 2000, sequence=0, words=words)
    assert result is not None
    assert (result.text, result.words) == ("we meat now", ())


def test_law_3_a_segment_gets_one_final_per_pass_and_then_only_of_a_higher() -> None:
    segment = Segment(last_pass=2)
    segment.hears("hello")
    first = segment.concludes("Hello.")
    assert first is not None
    assert (first.type, first.pass_, first.stable_chars, first.end_ms) == (ResultType.FINAL, 1, 6, 3000)
    assert segment.concludes("Hullo.") is None
    assert segment.hears("hello again") is None
    second = segment.concludes("Hello!", pass_=2)
    assert second is not None
    assert second.version > first.version
    assert segment.concludes("Hello?", pass_=2) is None
    assert segment.concludes("Hello?", pass_=3) is None


def test_a_second_pass_may_come_without_the_first() -> None:
    segment = Segment(last_pass=2)
    assert segment.concludes("Hello!", pass_=2) is not None
    assert segment.concludes("Hello.", pass_=1) is None


def test_versions_grow_over_all_segments_and_channels() -> None:
    transcript = Transcript()
    left, right = transcript.open_segment(0, 0), transcript.open_segment(1, 500)
    results = [
        transcript.partial(left, "a", 100, sequence=0),
        transcript.partial(right, "b", 600, sequence=0),
        transcript.final(left, 1, "a", 100, sequence=0),
        transcript.final(right, 1, "b", 600, sequence=0),
    ]
    assert [(r.segment_id, r.channel, r.version) for r in results if r] == [(0, 0, 1), (1, 1, 2), (0, 0, 3), (1, 1, 4)]


def test_law_7_a_closed_segment_is_forgotten() -> None:
    transcript = Transcript(last_pass=1)
    for _ in range(100):
        transcript.final(transcript.open_segment(0, 0), 1, "x", 10, sequence=0)
    transcript.close_segment(transcript.open_segment(0, 0))
    assert transcript.open_segments == 0
    transcript.check_integrity()


@pytest.mark.parametrize("segment_id", [0, 99])
def test_of_a_closed_or_unknown_segment_nothing_is_told(segment_id: int) -> None:
    segment = Segment()
    segment.transcript.close_segment(0)
    segment.transcript.close_segment(0)
    segment.id = segment_id
    assert segment.hears("x") is None
    assert segment.concludes("x") is None
    assert segment.transcript.drop(segment_id, 2, sequence=0) is None
    segment.transcript.check_integrity()


def test_a_segment_in_which_nobody_spoke_gets_an_empty_final() -> None:
    segment = Segment()
    result = segment.transcript.drop(segment.id, 2, sequence=0)
    assert result is not None
    assert (result.is_final, result.text, result.pass_) == (True, "", 2)
    assert segment.transcript.open_segments == 0


def test_a_partial_that_turned_out_to_be_nothing_is_taken_back() -> None:
    segment = Segment()
    segment.hears("uh")
    result = segment.transcript.drop(segment.id, 2, sequence=3)
    assert result is not None
    assert (result.is_final, result.text, result.version, result.pass_) == (True, "", 2, 2)
    assert segment.transcript.open_segments == 0


def test_a_second_pass_that_hears_nobody_takes_the_first_back() -> None:
    segment = Segment()
    segment.concludes("Hello.")
    result = segment.transcript.drop(segment.id, 2, sequence=0)
    assert result is not None
    assert (result.is_final, result.text, result.pass_) == (True, "", 2)
    assert segment.transcript.open_segments == 0


def test_a_first_pass_that_hears_nobody_leaves_the_segment_to_the_second() -> None:
    segment = Segment()
    nothing = segment.transcript.drop(segment.id, 1, sequence=0)
    assert nothing is not None
    assert (nothing.text, nothing.pass_) == ("", 1)
    final = segment.concludes("Hello!", pass_=2)
    assert final is not None
    assert final.version == 2


def test_a_first_pass_that_ends_with_nothing_takes_its_partials_back() -> None:
    segment = Segment()
    segment.hears("uh")
    result = segment.transcript.drop(segment.id, 1, sequence=0)
    assert result is not None
    assert (result.is_final, result.text, result.pass_) == (True, "", 1)
    assert segment.transcript.drop(segment.id, 1, sequence=0) is None
    assert segment.transcript.drop(segment.id, 2, sequence=0) is not None
    assert segment.transcript.open_segments == 0


def test_a_pass_that_was_told_is_not_taken_back_by_a_drop_of_its_own() -> None:
    segment = Segment()
    segment.concludes("Hello.")
    assert segment.transcript.drop(segment.id, 1, sequence=0) is None
    assert segment.transcript.open_segments == 1


def test_a_decoder_that_takes_nothing_back_says_itself_what_is_stable() -> None:
    segment = Segment()
    for text, settled in (("你好", 2), ("你好世界", 2), ("你好世界吧", 5)):
        result = segment.transcript.partial(segment.id, text, 2000, sequence=0, settled=settled)
        segment.transcript.check_integrity()
        assert stable(result) == text[:settled]


def test_what_a_model_heard_besides_words_is_told_with_the_final() -> None:
    segment = Segment()
    result = segment.transcript.final(
        segment.id, 2, "ha", 3000, sequence=0, emotion="happy", events=("laughter", "applause")
    )
    assert result is not None
    assert (result.emotion, result.events) == ("happy", ("laughter", "applause"))


def test_law_5_word_times_are_monotone_and_inside_the_segment() -> None:
    words = [word("a", -50, 90), word("b", 80, 60), word("c", 100, 200), word("d", 950, 1200), word("e", 1100, 1300)]
    clamped = clamp(words, 0, 1000)
    assert [(w.start_ms, w.end_ms) for w in clamped] == [(0, 90), (90, 90), (100, 200), (950, 1000), (1000, 1000)]
    assert clamped[2] is words[2]


def test_a_final_never_ends_before_it_starts() -> None:
    transcript = Transcript()
    result = transcript.final(transcript.open_segment(0, 500), 1, "x", 400, [word("x", 0, 900)], sequence=0)
    assert result is not None
    assert (result.end_ms, result.words) == (500, (word("x", 500, 500),))


@pytest.mark.parametrize(
    ("stable_prefix", "text", "whole"),
    [
        ("", "new", "new"),
        ("we meet", "we meet today", "we meet today"),
        ("we meat", "we meet today", "we meat today"),
        ("we meat,", "we meet, today", "we meat, today"),
        ("we meat", "we meet, today", "we meat, today"),
        ("we meat on", "we meet", "we meat on"),
        ("今天", "金天气好", "今天气好"),
        ("今天，", "金天，气好", "今天，气好"),
        ("今天", "金天AI好", "今天AI好"),
        ("我用AI", "他用AI模型", "我用AI模型"),
        ("hello", "你好", "hello好"),
        ("...", "so it is", "... so it is"),
        ("one", "一two", "one two"),
    ],
)
def test_a_text_goes_on_from_the_stable_prefix(stable_prefix: str, text: str, whole: str) -> None:
    assert continue_from(stable_prefix, text) == whole


@pytest.mark.parametrize("said", ["before", ""])
def test_where_one_pass_is_all_a_partial_waits_for_the_final_of_the_segment_before_it_on_its_channel(said: str) -> None:
    transcript = Transcript(last_pass=1)
    first, other, second = transcript.open_segment(0, 0), transcript.open_segment(1, 0), transcript.open_segment(0, 900)
    assert transcript.partial(second, "then", 1200, sequence=0) is None
    assert transcript.partial(other, "meanwhile", 1200, sequence=0) is not None
    transcript.final(first, 1, said, 800, sequence=0)
    told = transcript.partial(second, "then", 1200, sequence=0)
    assert told is not None
    assert told.text == "then"


def test_where_a_second_pass_follows_a_partial_waits_for_nothing() -> None:
    transcript = Transcript(last_pass=2)
    transcript.open_segment(0, 0)
    assert transcript.partial(transcript.open_segment(0, 900), "then", 1200, sequence=0) is not None


def test_a_segment_that_another_worker_opened_keeps_its_id_and_ids_count_on() -> None:
    transcript = Transcript(next_id=7)
    assert transcript.open_segment(0, 0, again=4) == 4
    assert transcript.open_segment(1, 0) == 7
    assert transcript.open_segment(0, 900) == 8
    assert transcript.next_id == 9
    transcript.check_integrity()
