"""A final's way through script, numbers and punctuation, with its words."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from streamscribe.core.results import Word
from streamscribe.text.pipeline import Finished, FinishRequest, TextPipeline
from tests.text.kit import TEXT, cases, cut


def finish(text: str, words: tuple[Word, ...] = (), language: str | None = "zh", **wishes: bool) -> Finished:
    return TEXT.finish(FinishRequest(text, words, language, **wishes))


@pytest.mark.parametrize(
    ("text", "language", "draft"),
    [
        ("我們開會", "zh", "我们开会"),
        ("我哋開會", "yue", "我哋开会"),
        ("我們開會", None, "我们开会"),
        ("図書館の會議", None, "図書館の會議"),
        ("圖書館", "ja", "圖書館"),
        ("two 二十", "en", "two 二十"),
        ("二十", "zh", "二十"),
        ("", None, ""),
    ],
)
def test_a_draft_is_only_simplified_and_only_where_it_is_chinese(text: str, language: str | None, draft: str) -> None:
    assert TEXT.draft(text, language) == draft


def test_each_word_keeps_its_times_when_numbers_are_written_in_digits() -> None:
    words = (
        Word("下午", 0, 300, 0.9),
        Word("三", 300, 400, 0.8),
        Word("點半", 400, 700, 0.6),
        Word("見", 700, 900, 0.5),
    )
    told = finish("下午三點半見", words)
    assert told.text == "下午3点半见"
    assert told.words == (
        Word("下午", 0, 300, 0.9),
        Word("3", 300, 400, 0.8),
        Word("点半", 400, 700, 0.6),
        Word("见", 700, 900, 0.5),
    )


def test_words_that_share_a_number_become_one_word() -> None:
    words = (
        Word("百分", 0, 300, 0.9),
        Word("之", 300, 400, 0.8),
        Word("五十", 400, 700, 0.6),
        Word("吗", 700, 900, 0.5),
    )
    first, second = finish("百分之五十吗", words).words
    assert (first.text, first.start_ms, first.end_ms) == ("50%", 0, 700)
    assert first.confidence == pytest.approx((0.9 + 0.8 + 0.6) / 3)
    assert second == Word("吗", 700, 900, 0.5)


def test_a_word_that_a_number_shares_goes_with_it() -> None:
    words = (Word("一百", 0, 10, 1.0), Word("二十人", 10, 20, 1.0), Word("吗", 20, 30, 1.0))
    assert [word.text for word in finish("一百二十人吗", words).words] == ["120人", "吗"]


def test_without_itn_numbers_stay() -> None:
    assert finish("開會二十分鐘", itn=False).text == "开会二十分钟"


def test_english_words_keep_their_spaces_out() -> None:
    words = (
        Word(" We", 0, 10, 1.0),
        Word(" pay", 10, 20, 1.0),
        Word(" twenty", 20, 30, 1.0),
        Word(" dollars.", 30, 40, 1.0),
    )
    told = finish(" We pay twenty dollars.", words, "en")
    assert told.text == "We pay $20."
    assert [(word.text, word.end_ms) for word in told.words] == [("We", 10), ("pay", 20), ("$20.", 40)]


@pytest.mark.parametrize(
    ("text", "language", "without"),
    [
        ("你好，世界。", "zh", "你好世界"),
        ("他说：“好的。”我走了！", "zh", "他说好的我走了"),
        ("Hello, world. It's 3.5% at 10:30!", "en", "Hello world It's 3.5% at 10:30"),
        ("One, - two", "en", "One two"),
        ("yes,no", "en", "yes no"),
        ("a well-known one at -5", "en", "a well-known one at -5"),
        ("At three thirty p m.", "en", "At 3:30 p.m"),
        ("……", "zh", "……"),
    ],
)
def test_without_punctuation_only_marks_of_numbers_and_words_stay(text: str, language: str, without: str) -> None:
    assert finish(text, language=language, punctuation=False).text == without


def test_a_word_of_marks_alone_goes_with_them() -> None:
    words = (Word("好", 0, 10, 1.0), Word("。", 10, 20, 1.0), Word("“走", 20, 30, 1.0))
    assert [word.text for word in finish("好。“走", words, punctuation=False).words] == ["好", "走"]


def test_marks_that_no_word_holds_go_to_the_word_before() -> None:
    words = (Word("你好", 0, 10, 1.0), Word("再见", 10, 20, 1.0))
    assert [word.text for word in finish("“你好”，再见。", words).words] == ["“你好”，", "再见。"]


def test_words_of_another_text_are_left_out() -> None:
    assert finish("你好", (Word("再见", 0, 10, 1.0),)) == Finished("你好", ())


def test_many_threads_get_the_same_texts() -> None:
    requests = [FinishRequest(spoken, language=language) for language, spoken, _ in cases()]
    fresh = TextPipeline()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fresh.finish, requests)) == [TEXT.finish(request) for request in requests]


def test_a_final_is_in_its_last_form_already() -> None:
    for language, spoken, _ in cases():
        once = finish(spoken, language=language).text
        assert finish(once, language=language).text == once


def test_a_warm_pipeline_answers_as_a_cold_one() -> None:
    warm = TextPipeline()
    warm.warm_up()
    assert warm.finish(FinishRequest("開會二十分鐘", cut("開會二十分鐘", {2}), "zh")).text == "开会20分钟"
