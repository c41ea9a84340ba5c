"""Numbers in digits, against the tables of what readers want."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.bench.text_rules import LANGUAGES, table
from streamscribe.text.chinese_numbers import number
from streamscribe.text.itn import number_edits
from streamscribe.text.pipeline import FinishRequest
from streamscribe.text.timed import TimedText, timed
from tests.text.kit import TEXT, bare, cases, cut, told


def written(text: str, language: str | None) -> str:
    return TimedText(text).edited(number_edits(text, language)).text


@pytest.mark.parametrize(("language", "spoken", "expected"), cases())
def test_spoken_numbers_are_written_as_readers_want_them(language: str, spoken: str, expected: str) -> None:
    assert written(spoken, language) == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_normal_text_stays_as_it_is(language: str) -> None:
    changed = {text: new for _, text in table(language) if (new := written(text, language)) != text}
    assert not changed


@pytest.mark.parametrize(("language", "lines", "untouched"), [("zh", 300, 80), ("en", 100, 30)])
def test_the_tables_are_large_and_hold_what_must_stay(language: str, lines: int, untouched: int) -> None:
    rows = table(language)
    assert len({spoken for spoken, _ in rows}) >= lines
    assert sum(spoken == expected for spoken, expected in rows) >= untouched


@pytest.mark.parametrize(
    ("text", "language"),
    [("三時半に会いましょう", "ja"), ("図書館は二十円", None), ("six cent mille", "fr"), ("twenty three", None)],
)
def test_other_languages_stay(text: str, language: str | None) -> None:
    assert written(text, language) == text


def test_english_in_a_chinese_session_is_read_as_english() -> None:
    assert written("twenty minutes", "zh") == "20 minutes"


@given(st.sampled_from(cases()), st.sets(st.integers(1, 60)), st.booleans())
def test_law_5_words_tell_the_text_however_it_was_cut(
    case: tuple[str, str, str], cuts: set[int], punctuation: bool
) -> None:
    language, spoken, _ = case
    words = cut(spoken, cuts)
    finished = TEXT.finish(FinishRequest(spoken, words, language, punctuation=punctuation))
    assert told(finished.words) == bare(finished.text)
    times = [time for word in finished.words for time in (word.start_ms, word.end_ms)]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (words[0].start_ms, words[-1].end_ms) or not punctuation
    assert all(word.text == word.text.strip() and 0 < word.confidence <= 1 for word in finished.words)


_PIECES = [*"零〇幺一二两三十百千万亿点分之半刻年后月日块度米第几负比到加号周 ，。A", "百分之", "下午", "等于", "个"]
_ENGLISH = re.split(
    " ",
    "twenty five three thirty first second hundred thousand million point percent dollars cents and to past half "
    "quarter p m am oh april may of the in at a minus degrees people o'clock nineteen one - .",
)


@given(
    st.lists(st.sampled_from([*_PIECES, "twenty ", "five ", "p m"])),
    st.sampled_from(["zh", "en", None, "ja"]),
    st.booleans(),
)
def test_any_text_keeps_something_and_its_words(pieces: list[str], language: str | None, punctuation: bool) -> None:
    text = "".join(pieces)
    finished = TEXT.finish(FinishRequest(text, cut(text, set(range(60))), language, punctuation=punctuation))
    assert bool(finished.text) == bool(text.strip())
    assert told(finished.words) == bare(finished.text)


_NUMERALS = re.compile("[零〇一二两三四五六七八九十百千万亿点半之分负幺%‰./0-9-]")


@given(st.lists(st.sampled_from(_PIECES)).map("".join))
def test_only_numbers_of_a_chinese_text_change(text: str) -> None:
    assert _NUMERALS.sub("", written(text, "zh")) == _NUMERALS.sub("", text)


@given(st.lists(st.sampled_from(_ENGLISH)).map(" ".join))
def test_edits_are_in_order_and_overlap_nowhere(text: str) -> None:
    edits = number_edits(text, "en")
    spans = [at for edit in edits for at in (edit.start, edit.end)]
    assert spans == sorted(spans)
    assert all(edit.start < edit.end and edit.text for edit in edits)


@given(
    st.lists(st.sampled_from(_PIECES)).map("".join),
    st.lists(st.sampled_from([spoken for spoken, _ in table("en")])).map(", ".join),
)
def test_what_is_written_once_is_written_for_good(chinese: str, english: str) -> None:
    for text, language in ((chinese, "zh"), (english, "en")):
        once = written(text, language)
        assert written(once, language) == once


def test_each_number_is_a_word_of_its_own() -> None:
    text = "二零二六年四月十六日下午三点三十分"
    words = cut(text, set(range(len(text))))
    done = timed(text, words).edited(number_edits(text, "zh"))
    assert [word.text for word in done.words] == ["2026", "年", "4", "月", "16", "日", *"下午", "3", "点", "30", "分"]
    assert [word.start_ms for word in done.words[:4]] == [0, 400, 500, 600]


@given(st.integers(1, 9999))
def test_a_number_read_out_is_written_back(value: int) -> None:
    assert number(_read(value)) == str(value)
    assert number(_read(value) + "万") == f"{value}万"


def _read(value: int) -> str:
    text = ""
    for unit, size in (("千", 1000), ("百", 100), ("十", 10), ("", 1)):
        digit = value // size % 10
        text += "零一二三四五六七八九"[digit] + (unit if digit else "")
    while "零零" in text:
        text = text.replace("零零", "零")
    return text.strip("零")


@pytest.mark.parametrize("text", ["十百", "百千", "二百三十三百", "万", "七八百", "一千二百三四", "亿万"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    "piece", ["一", "十", "一亿", "一加", "一点", "百分之", "one hundred and ", "a hundred ", "to five "]
)
def test_no_text_is_too_long(piece: str) -> None:
    for language in LANGUAGES:
        assert written(piece * 2000, language)


def test_very_large_numbers_are_written_out() -> None:
    assert written("三亿五千万五", "zh") == "350005000"
    assert "e" not in written("幺百亿零万幺", "zh")
