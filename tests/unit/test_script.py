"""Where texts may be cut and how they are joined."""

import pytest

from streamscribe.core.script import common_prefix, is_boundary, is_unspaced, join, move_leading_mark, unit_ends


@pytest.mark.parametrize(
    ("char", "unspaced"), [("a", False), ("é", False), ("한", False), ("气", True), ("あ", True), ("ก", True)]
)
def test_scripts_without_spaces_are_known(char: str, unspaced: bool) -> None:
    assert is_unspaced(char) is unspaced


@pytest.mark.parametrize(
    ("text", "at", "boundary"),
    [
        ("ab", 0, True),
        ("ab", 1, False),
        ("ab", 2, True),
        ("a b", 1, True),
        ("a气", 1, True),
        ("天气", 1, True),
        ("it's", 2, False),
    ],
)
def test_a_cut_tears_no_word_apart(text: str, at: int, boundary: bool) -> None:
    assert is_boundary(text, at) is boundary


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("", "x", ""),
        ("same text", "same text", "same text"),
        ("hello wor", "hello world", "hello"),
        ("hello world", "hello world.", "hello world"),
        ("hello worlds", "hello world", "hello"),
        ("天气好", "天气很好", "天气"),
        ("用AI", "用AIX", "用"),
        ("a b ", "a b c", "a b"),
    ],
)
def test_the_common_prefix_ends_with_a_word(one: str, other: str, shared: str) -> None:
    assert common_prefix(one, other) == shared
    assert common_prefix(other, one) == shared


def test_units_are_words_and_characters() -> None:
    assert unit_ends("Hi, it's 天气。") == [2, 8, 10, 11]


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("", "a", "a"),
        ("a", "", "a"),
        ("a ", " b", "a b"),
        ("a", ", b", "a, b"),
        ("今天", "天气", "今天天气"),
        ("今天", "AI", "今天AI"),
        ("AI", "今天", "AI今天"),
    ],
)
def test_texts_are_joined_as_their_script_wants(before: str, after: str, whole: str) -> None:
    assert join(before, after) == whole


@pytest.mark.parametrize(
    ("previous", "text", "moved"),
    [
        ("你好", "，再见", ("你好，", "再见")),
        ("你好。", "，再见", ("你好。", "再见")),
        ("one ", ", two", ("one,", "two")),
        ("you", "?! no", ("you?!", "no")),
        ("", "，再见", ("", "，再见")),
        ("你好", "再见", ("你好", "再见")),
        ("it is", ".5 now", ("it is", ".5 now")),
        ("你好", "。", ("你好。", "")),
        ("他说", "“好”", ("他说", "“好”")),
    ],
)
def test_a_mark_at_the_head_goes_to_the_text_before(previous: str, text: str, moved: tuple[str, str]) -> None:
    assert move_leading_mark(previous, text) == moved
    assert join(previous, text).replace(" ", "") == "".join(moved).replace(" ", "")
