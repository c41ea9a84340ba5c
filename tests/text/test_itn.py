"""Numbers in digits, against the table of what readers want."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamscribe.text.chinese_numbers import in_digits, number
from streamscribe.text.pipeline import FinishRequest
from tests.text.kit import TEXT, bare, cases, cut, told


@pytest.mark.parametrize(("language", "spoken", "written"), cases())
def test_spoken_numbers_are_written_as_readers_want_them(language: str, spoken: str, written: str) -> None:
    assert TEXT.finish(FinishRequest(spoken, language=language)).text == written


@pytest.mark.parametrize(("language", "written"), sorted({(language, written) for language, _, written in cases()}))
def test_a_normal_text_stays_as_it_is(language: str, written: str) -> None:
    assert TEXT.finish(FinishRequest(written, language=language)).text == written


@settings(deadline=None)
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


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*"零一二两三十百千万亿点分之半刻年月日块度第几 ，。", "百分之", "下午", "twenty ", "five ", "p m"]
        )
    ),
    st.sampled_from(["zh", "en", None, "ja"]),
    st.booleans(),
)
def test_any_text_keeps_something_and_its_words(pieces: list[str], language: str | None, punctuation: bool) -> None:
    text = "".join(pieces)
    finished = TEXT.finish(FinishRequest(text, cut(text, set(range(60))), language, punctuation=punctuation))
    assert bool(finished.text) == bool(text.strip())
    assert told(finished.words) == bare(finished.text)


@settings(deadline=None)
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
def test_what_is_no_number_stays(text: str) -> None:
    assert in_digits(text) == text
