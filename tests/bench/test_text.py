"""How texts are compared: the normalisation is stated, and is the same for what was said and what was heard."""

import pytest

from streamscribe.bench.text import corpus_error_rate, counts_characters, error_rate


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("One two three.", "1, 2, 3"),
        ("PRESS TWO FOR SALES", "Press 2 for sales."),
        ("it’s fine", "It's fine!"),
        ("一二三四五", "12345"),
        ("百分之五十", "50%"),
        ("广州市，房地产。", "广州市房地产"),
    ],
)
def test_writing_is_no_error(said, heard):
    assert error_rate(said, heard) == 0


def test_spaced_scripts_count_words_and_others_characters():
    assert error_rate("the quick brown fox", "the quick brown box") == 1 / 4
    assert error_rate("你好世界", "你好事件") == 2 / 4
    assert counts_characters("ok 好")
    assert not counts_characters("ok")


def test_a_corpus_counts_errors_over_all_words_not_the_mean_of_texts():
    assert corpus_error_rate(["a b c", "d"], ["a b c", "e"]) == 1 / 4
