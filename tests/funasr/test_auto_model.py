"""Any FunASR model as a segment recogniser, against `AutoModel.generate` called directly."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.core.errors import AudioTooLong, BadRequest, ModelUnavailable
from streamscribe.core.options import Hotword
from streamscribe.models.ports import SegmentRequest

_touched: list[str] | None = None


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _touched is not None and event in ("open", "socket.connect", "socket.getaddrinfo"):
        _touched.append(f"{event} {arguments}")


sys.addaudithook(_listen)


@contextmanager
def touched() -> Iterator[list[str]]:
    """What files and hosts are touched meanwhile."""
    global _touched
    _touched = []
    try:
        yield _touched
    finally:
        _touched = None


@pytest.fixture(scope="module")
def make_recognizer():
    from streamscribe.models.funasr_torch.auto_model import AutoModelRecognizer

    return AutoModelRecognizer


@pytest.fixture(scope="module")
def paraformer(make_recognizer, bundled):
    return make_recognizer(bundled / "tiny-paraformer", device="cpu", threads=1)


@pytest.fixture(scope="module")
def sense_voice(make_recognizer, bundled):
    return make_recognizer(bundled / "tiny-sensevoice", device="cpu", threads=1)


def direct(recognizer, samples, **wishes) -> str:
    """What the recogniser's own model says when it is called without it."""
    results = recognizer._model.generate(input=[samples], batch_size=1, disable_pbar=True, cache={}, **wishes)
    return results[0]["text"]


def test_segments_have_the_texts_that_generate_gives_in_order(paraformer, syllables):
    segments = [syllables(seed, to_samples(600 + 500 * seed)) for seed in range(5)]
    heard = paraformer.recognize([SegmentRequest(samples) for samples in segments])
    expected = [" ".join(direct(paraformer, samples).split()) for samples in segments]
    assert [one.text for one in heard] == expected
    assert len(set(expected)) > 2


def test_tags_are_no_text_and_itn_is_passed_on(sense_voice, syllables):
    samples = syllables(1, to_samples(2000))
    for itn in (True, False):
        [heard] = sense_voice.recognize([SegmentRequest(samples, itn=itn, language="zh")])
        raw = direct(sense_voice, samples, use_itn=itn, language="zh")
        assert raw.startswith("<|")
        assert heard.text == raw[raw.rindex("|>") + 2 :].strip()
        assert heard.language == "zh"


def test_words_have_times_inside_the_segment(paraformer, syllables):
    samples = syllables(2, to_samples(2500))
    [heard] = paraformer.recognize([SegmentRequest(samples, words=True)])
    assert heard.words
    times = [time for word in heard.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= len(samples)
    assert "".join(word.text for word in heard.words) == heard.text.replace(" ", "")


@pytest.mark.parametrize(
    "hostile", ["/etc/passwd", "{folder}/words.txt", "words.txt", "http://127.0.0.1:9/words", "https://a.b"]
)
def test_a_hot_word_reads_no_file_and_asks_no_host(paraformer, syllables, tmp_path, monkeypatch, hostile):
    (tmp_path / "words.txt").write_text("一二三\n")
    monkeypatch.chdir(tmp_path)
    phrase = hostile.format(folder=tmp_path)
    samples = syllables(3, to_samples(1000))
    paraformer.recognize([SegmentRequest(samples, hotwords=(Hotword("一二"),))])
    with touched() as names:
        paraformer.recognize([SegmentRequest(samples, hotwords=(Hotword(phrase), Hotword("一二")))])
    assert not [
        name for name in names if str(tmp_path) in name or "words" in name or "passwd" in name or "socket" in name
    ]


def test_the_raw_phrase_would_be_read(paraformer, syllables, tmp_path):
    (tmp_path / "words.txt").write_text("一二\n")
    with touched() as names:
        direct(paraformer, syllables(3, to_samples(1000)), hotword=str(tmp_path / "words.txt"))
    assert [name for name in names if "words.txt" in name]


def test_hot_words_reach_the_model_as_plain_words(make_recognizer):
    from streamscribe.models.funasr_torch.auto_model import hotword_string

    assert hotword_string([Hotword("滨海新区"), Hotword("New York"), Hotword("it's"), Hotword("{'a':20}")]) == (
        " 滨海新区 New York it's a 20 "
    )


def test_silence_and_breaths_have_no_text(paraformer):
    lengths = (0, 1, 100, 1599, to_samples(3000))
    for heard in paraformer.recognize([SegmentRequest(np.zeros(length, np.float32)) for length in lengths]):
        assert (heard.text, heard.words) == ("", ())


def test_what_is_too_long_or_no_language_is_refused(paraformer):
    with pytest.raises(AudioTooLong):
        paraformer.recognize([SegmentRequest(np.zeros(paraformer.max_samples + 1, np.float32))])
    paraformer.check_language("zh-CN")
    for bad in ("", "/etc/passwd", "zh CN", "x" * 50):
        with pytest.raises(BadRequest):
            paraformer.check_language(bad)


@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        ({}, False),
        ({"llm_kwargs": {"num_beams": 4}}, False),
        ({"llm_kwargs": {"do_sample": True}}, True),
        ({"do_sample": False, "temperature": 1.0}, False),
        ({"DecodingOptions": {"temperature": 0.0}}, False),
        ({"DecodingOptions": {"temperature": 0.2}}, True),
        ({"steps": [{"temperature": (0.0, 0.2)}]}, True),
    ],
)
def test_options_that_have_tokens_drawn_are_found_wherever_they_stand(options, drawn):
    import torch

    from streamscribe.models.funasr_torch.auto_model import samples

    assert samples(torch.nn.Linear(1, 1), options) is drawn


def test_a_language_model_that_is_set_to_sample_is_found_inside_a_model():
    import torch
    from transformers import GenerationConfig

    from streamscribe.models.funasr_torch.auto_model import samples

    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    model[0].generation_config = GenerationConfig()
    assert not samples(model, {})
    model[0].generation_config.do_sample = True
    assert samples(model, {})


def test_a_model_whose_options_sample_says_so(make_recognizer, paraformer, bundled, tmp_path):
    import shutil

    assert paraformer.deterministic
    directory = shutil.copytree(bundled / "tiny-paraformer", tmp_path / "model")
    with (directory / "config.yaml").open("a") as config:
        config.write("llm_kwargs: {do_sample: true}\n")
    assert not make_recognizer(directory).deterministic


def test_texts_are_kept_under_the_libraries_that_compute_them(paraformer):
    import torch
    import transformers

    assert {torch.__version__, transformers.__version__, np.__version__} <= set(paraformer.identity)
    assert paraformer.identity is paraformer.identity


def test_a_directory_that_is_no_model_is_refused(make_recognizer, tmp_path):
    with pytest.raises(ModelUnavailable):
        make_recognizer(tmp_path)
    (tmp_path / "config.yaml").write_text("model: Nothing\n")
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(ModelUnavailable):
        make_recognizer(tmp_path)


def test_a_directorys_own_code_is_never_run(make_recognizer, bundled, tmp_path):
    import shutil

    directory = shutil.copytree(bundled / "tiny-sensevoice", tmp_path / "model")
    (directory / "model.py").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})")
    (directory / "requirements.txt").write_text("no-such-package-at-all\n")
    with (directory / "config.yaml").open("a") as config:
        config.write("trust_remote_code: true\nremote_code: model.py\n")
    make_recognizer(directory)
    assert not os.path.exists(tmp_path / "ran")
