"""CT-Transformer: marks equal FunASR's, offline and realtime, alone and in any company."""

import pytest

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.tokens import Mark
from streamscribe.models.ct_transformer import OnnxPunctuator, OnnxRealtimePunctuator
from streamscribe.models.ct_transformer.sentences import Sentences
from tests.contracts.punctuator import PunctuatorContract
from tests.models import tiny

CHINESE = str.maketrans(",.?", "，。？")


@pytest.fixture(scope="module")
def golden():
    return tiny.golden("offline.json")


@pytest.fixture(scope="module")
def offline():
    return OnnxPunctuator(tiny.files("tiny-punc"))


@pytest.fixture(scope="module")
def realtime():
    return OnnxRealtimePunctuator(tiny.files("tiny-punc-realtime"))


class TestOnnxPunctuator(PunctuatorContract):
    @pytest.fixture
    def punctuator(self, offline):
        return offline

    @pytest.fixture
    def texts(self):
        return ["你好查询余额谢谢", "yes 我要投诉 help", "什么时候发货请稍等好的"]


class TestOnnxRealtimePunctuator(TestOnnxPunctuator):
    @pytest.fixture
    def punctuator(self, realtime):
        return realtime


def marked(text, marks):
    for mark in reversed(marks):
        text = text[: mark.at] + mark.text + text[mark.at :]
    return plain(text)


def plain(text):
    return "".join(text.split()).lower()


def test_offline_marks_equal_funasr_s(offline, golden):
    texts = golden["tiny-punc"]
    for text, marks in zip(texts, offline.punctuate(list(texts)), strict=True):
        assert marked(text, marks) == plain(texts[text])


def test_realtime_marks_equal_funasr_s_but_for_the_last(realtime, golden):
    """FunASR's realtime model writes Chinese marks behind English words too, and never a last one."""
    texts = golden["tiny-punc-realtime"]
    for text, marks in zip(texts, realtime.punctuate(list(texts)), strict=True):
        assert marked(text, marks[:-1]).translate(CHINESE) == plain(texts[text]).translate(CHINESE)


def test_a_model_that_needs_jieba_is_refused():
    files = tiny.files("tiny-punc")
    with pytest.raises(ModelUnavailable, match="jieba"):
        OnnxPunctuator({**files, "jieba_usr_dict": files["tokens.json"]})


def test_a_text_is_read_20_words_at_a_time_from_its_last_open_sentence_on():
    text = Sentences("甲" * 50)
    assert len(text.window()) == 20
    text.take(["_"] * 10 + ["。"] + ["_"] * 9)
    assert len(text.window()) == 29
    text.take(["_"] * 29)
    assert len(text.window()) == 39
    text.take(["_"] * 38 + ["？"])
    assert text.window() == []
    assert text.marks() == (Mark(11, "。"), Mark(50, "？"))


def test_the_ends_of_a_window_end_no_sentence():
    text = Sentences("甲" * 50)
    text.window()
    text.take(["。", "。", *["_"] * 17, "。"])
    assert len(text.window()) == 40


def test_a_sentence_that_does_not_end_is_cut_at_a_comma():
    text = Sentences("甲" * 300)
    sizes = []
    while window := text.window():
        sizes.append(len(window))
        text.take(["，" if place == 99 else "_" for place in range(len(window))])
    assert max(sizes) == 220
    assert text.marks()[0] == Mark(100, "。")


def test_a_window_is_bounded_where_there_is_no_mark_at_all():
    text = Sentences("甲" * 3000)
    sizes = []
    while window := text.window():
        sizes.append(len(window))
        text.take(["_"] * len(window))
    assert max(sizes) == 520
    assert text.marks() == (Mark(3000, "。", ""),)


@pytest.mark.parametrize(
    ("text", "mark", "last", "if_open"),
    [
        ("好", "_", "。", ""),
        ("好", "，", "。", "，"),
        ("好", "、", "。", "、"),
        ("好", "？", "？", None),
        ("yes", "_", ".", ""),
        ("yes", "，", ".", ","),
        ("yes", "、", "。", "、"),
        ("yes", "？", "?", None),
    ],
)
def test_the_last_mark_ends_a_sentence_in_the_word_s_script_and_tells_what_the_model_has_there(
    text, mark, last, if_open
):
    sentences = Sentences(text)
    sentences.window()
    sentences.take([mark])
    assert sentences.marks() == (Mark(len(text), last, if_open),)


def test_a_text_that_has_its_last_mark_gets_no_other():
    for text in ("好。", "yes.", "ok?"):
        sentences = Sentences(text)
        sentences.take(["_"] * len(sentences.window()))
        assert sentences.marks() == ()


def test_marks_are_kept_under_the_libraries_that_compute_them(offline):
    import numpy as np
    import onnxruntime

    assert {onnxruntime.__version__, np.__version__} <= set(offline.identity)
