"""The small punctuator in FunASR's own hands: it loads, and writes what our engine writes."""

import pytest

from streamscribe.models.ct_transformer import OnnxPunctuator, OnnxRealtimePunctuator
from streamscribe.text.punctuation import unfinished

from .conftest import files_of

TEXTS = ("你好查询余额谢谢", "什么时候发货请稍等好的")


@pytest.fixture(scope="module")
def funasr(bundled, load_auto_model):
    from streamscribe.models.funasr_torch.packages import import_funasr

    import_funasr("funasr.models.ct_transformer.model", "funasr.models.sanm.encoder")
    return load_auto_model(bundled / "tiny-punc")


def test_marks_are_those_that_auto_model_writes(bundled, funasr):
    ours = OnnxPunctuator(files_of(bundled / "tiny-punc")).punctuate(TEXTS)
    for text, marks in zip(TEXTS, ours, strict=True):
        for mark in reversed(marks):
            text = text[: mark.at] + mark.text + text[mark.at :]
        assert funasr.generate(input="".join(filter(str.isalpha, text)))[0]["text"] == text


SESSION = ("你好查询", "余额订单", "物流谢谢我要", "投诉宽带故障", "什么时候", "发货手机号码一三五七九零")


def test_a_session_read_on_has_the_marks_that_funasr_s_realtime_model_writes_with_its_cache(bundled, load_auto_model):
    """FunASR writes the mark between two texts before the second one."""
    from streamscribe.models.funasr_torch.packages import import_funasr

    import_funasr("funasr.models.ct_transformer_streaming.model", "funasr.models.ct_transformer_streaming.encoder")
    funasr, cache = load_auto_model(bundled / "tiny-punc-realtime"), {}
    ours, before, inner = OnnxRealtimePunctuator(files_of(bundled / "tiny-punc-realtime")), "", 0
    for text in SESSION:
        whole = f"{before} {text}" if before else text
        [marks] = ours.punctuate([whole])
        marked = whole
        for mark in reversed(marks[:-1]):
            if mark.at >= len(before):
                marked = marked[: mark.at] + mark.text + marked[mark.at :]
        assert marked[len(before) :].replace(" ", "") == funasr.generate(input=text, cache=cache)[0]["text"]
        before = unfinished(whole, marks)
        assert before.replace(" ", "") == "".join(cache["pre_text"])
        inner += len(marks) - 1
    assert inner > 5
