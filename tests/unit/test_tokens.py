"""Tokens become text: words of pieces, spaces between English words only, whatever the chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.tokens import Detokenizer, HypothesisWord, Token, join


def tokens(*texts: str) -> list[Token]:
    """A token each 100 samples, 60 long, each a tenth surer than the last."""
    return [Token(text, 100 * i, 100 * i + 60, (i % 10) / 10) for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((), ""),
        (("你", "好"), "你好"),
        (("hello", "world"), "hello world"),
        (("opera@@", "tor"), "operator"),
        (("opera@@", "tor", "can@@", "cel"), "operator cancel"),
        (("请", "说", "hello", "world", "谢", "谢"), "请说hello world谢谢"),
        (("don@@", "'t", "go"), "don't go"),
        (("mp@@", "3", "文", "件"), "mp3文件"),
        (("二", "1", "2", "号"), "二12号"),
        (("café", "déjà", "привет"), "café déjà привет"),
        (("カ", "ラ", "ok"), "カラok"),
        (("𠮷", "野"), "𠮷野"),
        (("hel@@",), "hel"),
        (("hel@@", "你"), "hel你"),
        (("@@", "a", "@@", "b"), "a b"),
    ],
)
def test_pieces_make_words_and_only_english_ones_are_spaced(pieces, text):
    assert join(tokens(*pieces))[0] == text


def test_a_word_lasts_from_its_first_piece_to_its_last_and_is_as_sure_as_they_are_on_average():
    _, words = join(tokens("说", "o@@", "per@@", "ator"))
    assert words[0] == HypothesisWord("说", 0, 60, 0.0)
    assert words[1].text == "operator"
    assert (words[1].start, words[1].end) == (100, 360)
    assert words[1].confidence == pytest.approx(0.2)


def test_a_word_whose_pieces_lie_in_two_chunks_is_one_word():
    stream = Detokenizer()
    stream.add(tokens("opera@@"))
    assert stream.text == "opera"
    stream.add([Token("tor", 700, 760, 1.0)])
    assert stream.text == "operator"
    assert stream.words == (HypothesisWord("operator", 0, 760, 0.5),)


PIECES = st.sampled_from(["你", "好", "1", "a", "b@@", "'s", "@@", "word", "x@@", "㐀", "", "é@@"])


@given(st.lists(st.lists(PIECES, max_size=5), max_size=8))
def test_law_4_chunks_change_nothing_and_the_words_make_up_the_text(chunks):
    whole = tokens(*(piece for chunk in chunks for piece in chunk))
    stream, rest = Detokenizer(), iter(whole)
    for chunk in chunks:
        before = stream.text
        stream.add(next(rest) for _ in chunk)
        assert stream.text.startswith(before)
    assert (stream.text, stream.words) == join(whole)
    assert "".join(word.text for word in stream.words) == stream.text.replace(" ", "")
    times = [time for word in stream.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert all(0 <= word.confidence <= 1 for word in stream.words)
