"""Marks of a punctuator, capitals and spaces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.results import Word
from streamscribe.core.script import CLOSING_MARKS
from streamscribe.core.tokens import Mark
from streamscribe.text.pipeline import Finished, FinishRequest
from streamscribe.text.punctuation import unfinished
from tests.text.kit import TEXT, bare, cut, told


def finish(text: str, marks: dict[int, str], language: str | None = "zh", **wishes: bool) -> str:
    found = tuple(Mark(at, mark) for at, mark in marks.items())
    return TEXT.finish(FinishRequest(text, language=language, marks=found, **wishes)).text


@pytest.mark.parametrize(
    ("text", "marks", "marked"),
    [
        ("今天天气很好我们出去玩吧", {6: "，", 12: "。"}, "今天天气很好，我们出去玩吧。"),
        ("你好吗", {3: "？"}, "你好吗？"),
        ("你好吗", {3: "?"}, "你好吗？"),
        ("今天天气很好我们出去玩吧", {6: "，"}, "今天天气很好，我们出去玩吧。"),
        ("今天天气很好", {6: "，"}, "今天天气很好。"),
        ("你好", {0: "，", 2: "。"}, "你好。"),
        ("你好，世界", {2: "，", 3: "，", 5: "。"}, "你好，世界。"),
        ("你好。", {3: "。"}, "你好。"),
        ("我用python你呢", {8: "，", 10: "？"}, "我用python, 你呢？"),
        ("我用python", {8: "。"}, "我用python."),
        ("一共三百二十块四月一号付", {7: "，", 12: "。"}, "一共320块，4月1号付。"),
        ("有3你呢", {2: "，", 4: "？"}, "有3，你呢？"),
        (" 你好吗", {4: "？"}, "你好吗？"),
        ("你好", {9: "？"}, "你好"),
    ],
)
def test_marks_go_behind_what_they_end(text: str, marks: dict[int, str], marked: str) -> None:
    assert finish(text, marks) == marked


def test_english_marks_are_half_width_with_one_space_behind() -> None:
    marks = {5: "，", 16: "？", 23: "。"}
    assert (
        finish("hello how are you i am fine", {5: "，", 17: "？", 27: "。"}, "en") == "Hello, how are you? I am fine."
    )
    assert finish("hello how are you", marks, "en", punctuation=False) == "hello how are you"


def test_without_a_punctuator_no_mark_is_added() -> None:
    assert finish("你好", {}) == "你好"


def test_marks_are_of_the_word_before_them() -> None:
    words = (Word("你", 0, 10, 1.0), Word("好", 10, 20, 1.0), Word("吗", 20, 30, 1.0))
    done = TEXT.finish(FinishRequest("你好吗", words, "zh", marks=(Mark(2, "，"), Mark(3, "？"))))
    assert done.words == (Word("你", 0, 10, 1.0), Word("好，", 10, 20, 1.0), Word("吗？", 20, 30, 1.0))


@pytest.mark.parametrize(
    ("text", "written"),
    [("，好的。", "好的。"), ("。 ，好", "好"), ("……", "……"), (".5 percent", ".5 percent"), ("“好”", "“好”")],
)
def test_a_mark_at_the_head_is_taken_off(text: str, written: str) -> None:
    assert finish(text, {}) == written


def test_a_word_of_a_leading_mark_goes_with_it() -> None:
    words = (Word("，", 0, 10, 1.0), Word("好", 10, 20, 1.0))
    assert TEXT.finish(FinishRequest("，好", words, "zh")) == Finished("好", (Word("好", 10, 20, 1.0),))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("i think i'm late. so am i", "I think I'm late. So am I"),
        ("hello , world ! how are you", "Hello, world! How are you"),
        ("yes,no;maybe", "Yes, no; maybe"),
        ("two  spaces", "Two spaces"),
        ("we met at 3:30 p.m. on friday", "We met at 3:30 p.m. on Friday"),
        ("ask dr. smith, i.e. the boss", "Ask dr. smith, i.e. the boss"),
        ("wait... what", "Wait... what"),
        ("iPhone is a name", "iPhone is a name"),
        ("see example.com or a 1,234.5", "See example.com or a 1,234.5"),
        ("“yes.” he may march in august", "“Yes.” He may march in august"),
        ("in april i go", "In April I go"),
        ("23 people came. all left", "23 people came. All left"),
        ("she said no. then he left", "She said no. Then he left"),
        ("an i-beam", "An i-beam"),
        ("at http://a.b it is :)", "At http://a.b it is:)"),
    ],
)
def test_english_has_its_capitals_and_spaces(text: str, written: str) -> None:
    assert finish(text, {}, "en") == written
    assert finish(written, {}, "en") == written


def test_other_languages_keep_their_letters() -> None:
    assert finish("je vais i", {}, "fr") == "je vais i"
    assert finish("我用 iphone i 系列 。", {}) == "我用 iphone i 系列。"


_TEXTS = st.lists(st.sampled_from([*"你好三百，。 ?.,", "hello", " i ", "五点"])).map("".join)


@given(_TEXTS, st.dictionaries(st.integers(-2, 40), st.sampled_from("，。？、,.")), st.sampled_from(["zh", "en", None]))
def test_law_5_holds_with_marks_and_none_is_doubled(text: str, marks: dict[int, str], language: str | None) -> None:
    words = cut(text, set(range(60)))
    found = tuple(Mark(at, mark) for at, mark in marks.items())
    done = TEXT.finish(FinishRequest(text, words, language, marks=found, itn=False))
    assert told(done.words) == bare(done.text)
    assert bool(done.text.strip()) == bool(text.strip())
    plain = TEXT.finish(FinishRequest(text, words, language, itn=False)).text
    assert _doubled(done.text) <= _doubled(plain)


def _doubled(text: str) -> int:
    solid = bare(text)
    return sum(one in CLOSING_MARKS and other in CLOSING_MARKS for one, other in pairwise(solid))


@pytest.mark.parametrize(
    ("last", "alone", "going_on"),
    [
        (Mark(4, "。", "，"), "你好世界。", "你好世界，"),
        (Mark(4, "。", ""), "你好世界。", "你好世界"),
        (Mark(4, "？"), "你好世界？", "你好世界？"),
    ],
)
def test_a_text_that_goes_on_ends_as_the_model_has_it(last: Mark, alone: str, going_on: str) -> None:
    for goes_on, expected in ((False, alone), (True, going_on)):
        request = FinishRequest("你好世界", language="zh", marks=(last,), goes_on=goes_on)
        assert TEXT.finish(request).text == expected
    inner = FinishRequest("你好世界", language="zh", marks=(Mark(2, "，"), last), goes_on=True)
    assert TEXT.finish(inner).text == going_on.replace("你好", "你好，")


def test_a_text_that_goes_on_gets_no_mark_at_its_end_where_the_punctuator_has_none() -> None:
    request = FinishRequest("你好世界", language="zh", marks=(Mark(2, "，"),), goes_on=True)
    assert TEXT.finish(request).text == "你好，世界"


@pytest.mark.parametrize(
    ("text", "ends", "left"),
    [
        ("你好查询余额", {6: "。"}, "你好查询余额"),
        ("你好查询余额", {2: "，", 6: "。"}, "你好查询余额"),
        ("你好查询余额", {2: "。", 6: "。"}, "查询余额"),
        ("yes please go", {3: ".", 10: "?", 13: "."}, "go"),
        ("", {}, ""),
        ("好" * 300, {10: "。"}, "好" * 100),
        ("word " * 60, {}, "word " * 19 + "word"),
    ],
)
def test_what_no_sentence_end_inside_closes_may_go_on(text: str, ends: dict[int, str], left: str) -> None:
    assert unfinished(text, [Mark(at, mark) for at, mark in ends.items()]) == left
