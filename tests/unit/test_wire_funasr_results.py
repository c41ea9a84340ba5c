"""What the FunASR dialect makes of results: append-only increments, sentences that replace them, stamps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.results import Word
from streamscribe.wire.dialects.funasr_results import remainder, separator
from streamscribe.wire.dialects.funasr_stamps import page_count, stamps
from tests.unit.funasr_kit import CLOSED, result, talk, texts, told

# --- 2pass


def test_increments_are_the_growth_of_the_stable_prefix():
    dialect = talk()
    messages = told(dialect, result("欢迎大", stable=2), result("欢迎大家", stable=2), result("欢迎大家来", stable=4))
    assert [(m["text"], m["slice_type"], m["is_final"]) for m in messages] == [("欢迎", 0, False), ("大家", 1, False)]


def test_a_sentence_replaces_its_increments():
    dialect = talk()
    assert texts(dialect, result("hello"), result("Hello, world.", final=True, pass_=2)) == [
        ("2pass-online", "hello"),
        ("2pass-offline", "Hello, world."),
    ]


def test_a_later_segment_waits_until_the_shown_one_is_final():
    dialect = talk()
    assert texts(dialect, result("one"), result("two", 1)) == [("2pass-online", "one")]
    assert texts(dialect, result("One.", final=True, pass_=2)) == [("2pass-offline", "One."), ("2pass-online", " two")]


def test_a_late_sentence_does_not_lose_the_increments_of_the_next():
    dialect = talk()
    told(dialect, result("two", 1))
    assert texts(dialect, result("One.", 0, final=True, pass_=2)) == [
        ("2pass-offline", "One."),
        ("2pass-online", " two"),
    ]


def test_an_empty_final_takes_back_what_was_shown_and_else_says_nothing():
    dialect = talk()
    assert texts(dialect, result("", final=True, pass_=2)) == []
    told(dialect, result("noise", 1))
    assert texts(dialect, result("", 1, final=True, pass_=2)) == [("2pass-offline", "")]


def test_a_first_pass_is_shown_and_the_second_replaces_it():
    dialect = talk()
    assert texts(dialect, result("helo", final=True)) == [("2pass-online", "helo")]
    assert texts(dialect, result("hello", final=True, pass_=2)) == [("2pass-offline", "hello")]


def test_a_first_final_adds_its_marks_and_last_words_and_is_no_sentence():
    dialect = talk()
    assert texts(
        dialect,
        result("你好", stable=2),
        result("你好，世界。", final=True),
        result("再", 1),
        result("你好，世界！", final=True, pass_=2),
    ) == [
        ("2pass-online", "你好"),
        ("2pass-online", "，世界。"),
        ("2pass-offline", "你好，世界！"),
        ("2pass-online", "再"),
    ]


def test_a_first_final_that_is_written_otherwise_waits_for_the_sentence():
    dialect = talk()
    assert texts(dialect, result("三百"), result("300元。", final=True), result("300元。", final=True, pass_=2)) == [
        ("2pass-online", "三百"),
        ("2pass-offline", "300元。"),
    ]


def test_online_the_first_final_is_the_sentence():
    dialect = talk("online")
    assert texts(dialect, result("今天", stable=2), result("今天，天气。", final=True), result("好", 1)) == [
        ("2pass-online", "今天"),
        ("2pass-online", "，天气。"),
        ("2pass-online", "好"),
    ]


def test_a_first_pass_whose_second_never_comes_is_a_sentence_at_the_end():
    dialect = talk()
    told(dialect, result("hello", final=True))
    dialect.decode_text('{"is_speaking":false}')
    assert texts(dialect, CLOSED) == [("2pass-offline", "hello")]


def test_the_last_sentence_after_the_end_is_the_final_message():
    dialect = talk()
    dialect.decode_text('{"is_speaking":false}')
    assert texts(dialect, result("one", final=True, pass_=2)) == []
    assert texts(dialect, result("two", 1, final=True, pass_=2)) == [("2pass-offline", "one")]
    (last,) = told(dialect, CLOSED)
    assert (last["text"], last["is_final"]) == (" two", True)


def test_the_last_message_is_empty_where_all_was_said():
    dialect = talk()
    told(dialect, result("one", final=True, pass_=2, end=900))
    dialect.decode_text('{"is_speaking":false}')
    (last,) = told(dialect, CLOSED)
    assert (last["mode"], last["text"], last["is_final"], last["end_time"]) == ("2pass-offline", "", True, 900)


# --- online and offline


def test_online_a_final_is_what_was_not_said_yet():
    dialect = talk("online")
    messages = [
        result("你好", stable=2),
        result("你好世界。", final=True),
        result("hello", 1),
        result("hello", 1, final=True),
    ]
    assert texts(dialect, *messages) == [
        ("2pass-online", "你好"),
        ("2pass-online", "世界。"),
        ("2pass-online", "hello"),
    ]


def test_offline_all_is_in_one_message():
    dialect = talk("offline")
    words = [Word("你", 0, 100, 1), Word("好", 100, 200, 1)]
    assert (
        told(
            dialect, result("draft"), result("hello", 1, final=True, start=500), result("hi", 1, final=True, start=500)
        )
        == []
    )
    assert told(dialect, result("你好。", 0, final=True, words=words)) == []
    (message,) = told(dialect, CLOSED)
    assert (message["mode"], message["text"], message["is_final"]) == ("offline", "你好。hi", True)
    assert (message["start_time"], message["end_time"]) == (0, 1000)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.text("ab 你好。", max_size=6), st.booleans()), max_size=12),
    st.sampled_from(["2pass", "online", "offline"]),
)
def test_whatever_comes_one_final_message_ends_and_the_text_is_that_of_the_finals(steps, mode):
    dialect = talk(mode)
    done: dict[int, str] = {}
    answers = []
    for segment, text, final in steps:
        if segment in done:
            continue
        if final:
            done[segment] = text
        answers += told(dialect, result(text, segment, final=final, pass_=2, stable=len(text) // 2, start=segment))
    dialect.decode_text('{"is_speaking":false}')
    answers += told(dialect, CLOSED)
    assert [answer["is_final"] for answer in answers] == [False] * (len(answers) - 1) + [True]
    if mode == "2pass":
        sentences = "".join(answer["text"] for answer in answers if answer["mode"] == "2pass-offline")
        assert sentences.replace(" ", "") == "".join(done.values()).replace(" ", "")


@given(st.text("ab 你。", max_size=8), st.text("ab 你。", max_size=8))
def test_an_increment_never_takes_back(shown, text):
    growth = remainder(shown, text)
    assert text.endswith(growth)
    if text.startswith(shown):
        assert shown + growth == text


def test_changed_marks_and_cases_are_not_said_again():
    assert remainder("hello world how", "Hello, world. How are you?") == " are you?"
    assert remainder("a long text", "short") == ""


def test_what_was_masked_counts_as_said():
    assert remainder("我有*个问题", "我有一个问题吗") == "吗"


@pytest.mark.parametrize(
    ("left", "right", "between"),
    [("", "a", ""), ("a", "", ""), ("one.", "two", " "), ("你好。", "再见", ""), ("好", "ok", ""), ("ok", "好", ""),
     ("a ", "b", ""), ("a", " b", ""), ("a", ", b", ""), ("안녕", "하세요", " ")],
)  # fmt: skip
def test_pieces_are_joined_as_their_scripts_want(left, right, between):
    assert separator(left, right) == between


# --- stamps


def words(*pairs):
    return [Word(text, begin, end, 1.0) for text, begin, end in pairs]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("你好。", 2),
        ("hello world", 2),
        ("hello, world.", 2),
        ("It's", 4),
        ("2024年", 5),
        ("你好！", 3),
        ("", 0),
        ("😀", 2),
    ],
)
def test_the_page_counts_words_of_letters_and_else_characters(text, count):
    assert page_count(text) == count


def test_stamps_are_one_pair_for_each_word_and_one_sentence_for_each_clause():
    made = stamps("你好，世界。", words(("你", 0, 10), ("好，", 10, 20), ("世界", 30, 50)))
    assert made.timestamp == "[[0,10],[10,20],[30,40],[40,50]]"
    assert made.sentences is not None
    assert [(s.text_seg, s.punc, s.start, s.end) for s in made.sentences] == [
        ("你 好", "，", 0, 20),
        ("世 界", "。", 30, 50),
    ]
    assert made.sentences[1].ts_list == [[30, 40], [40, 50]]


def test_where_the_page_would_miscount_only_the_sentences_are_told():
    made = stamps("It's fine", words(("It's", 0, 10), ("fine", 10, 20)))
    assert made.timestamp is None
    assert made.sentences is not None
    assert made.sentences[0].text_seg == "It's fine"


@pytest.mark.parametrize(
    "given", [(), (("other", 0, 1),), (("你", 0, 1),), (("好", 0, 1), ("你", 1, 2)), (("好", 0, 1),), (("。", 0, 1),)]
)
def test_words_that_are_not_the_texts_own_make_no_stamps(given):
    made = stamps("你好。", words(*given))
    assert made.timestamp is None
    assert made.sentences is None
