"""The small punctuator in FunASR's own hands: it loads, and writes what our engine writes."""

import pytest

from streamscribe.models.ct_transformer import OnnxPunctuator

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
