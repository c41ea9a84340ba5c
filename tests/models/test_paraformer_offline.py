"""The offline Paraformer: equal to FunASR's own, token for token, alone and in any company."""

import dataclasses

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.audio import to_samples
from streamscribe.core.errors import AudioTooLong, BadRequest, ModelUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.core.options import Hotword
from streamscribe.models.fbank import Fbank
from streamscribe.models.lfr import low_frame_rate
from streamscribe.models.onnx_session import read_graph
from streamscribe.models.paraformer import hotwords
from streamscribe.models.paraformer.hotwords import HotwordCompiler, HotwordEmbedder
from streamscribe.models.paraformer.offline_onnx import OnnxParaformer
from streamscribe.models.paraformer.token_times import PLACE_SAMPLES, token_times
from streamscribe.models.ports import SegmentRequest
from tests.contracts.segment_recognizer import SegmentRecognizerContract, requests
from tests.models import tiny


@pytest.fixture(scope="module")
def golden():
    return tiny.golden("offline.json")["paraformer"]


@pytest.fixture(scope="module")
def named(golden):
    """Recordings of a name, each with what FunASR hears when that name, or all names, are its hot words."""
    return list(golden["named"].values())


@pytest.fixture(scope="module")
def recordings(golden):
    return [tiny.samples(file) for file in golden["plain"]]


@pytest.fixture(scope="module")
def name_recordings(golden):
    return [tiny.samples(file) for file in golden["named"]]


@pytest.fixture(scope="module")
def paraformer():
    return OnnxParaformer(tiny.files("tiny-paraformer"))


def words_of(text):
    return tuple(Hotword(word) for word in text.split())


def unspaced(text):
    return "".join(text.split())


def assert_alike(one, other):
    assert (one.text, one.words and [(w.text, w.start, w.end) for w in one.words]) == (
        other.text,
        other.words and [(w.text, w.start, w.end) for w in other.words],
    )
    assert one.confidence == pytest.approx(other.confidence, abs=1e-4)
    assert [w.confidence for w in one.words] == pytest.approx([w.confidence for w in other.words], abs=1e-4)


class TestOnnxParaformer(SegmentRecognizerContract):
    @pytest.fixture
    def recognizer(self, paraformer):
        return paraformer

    @pytest.fixture
    def utterances(self, recordings):
        return recordings[:3]


def test_text_equals_funasr_s(paraformer, golden, recordings):
    heard = paraformer.recognize(requests(recordings))
    assert [unspaced(one.text) for one in heard] == [unspaced(one["text"]) for one in golden["plain"].values()]


def test_times_equal_funasr_s(paraformer, golden, recordings):
    heard = paraformer.recognize(requests(recordings, words=True))
    for one, samples, expected in zip(heard, recordings, golden["plain"].values(), strict=True):
        bounds = np.array([(word.start, word.end) for word in one.words]) / 16
        limits = np.clip(expected["times_ms"], 0, len(samples) / 16)  # FunASR's pass the ends of the audio
        assert np.abs(bounds - limits).max() <= 1


def test_one_hot_word_is_heard_as_by_funasr(paraformer, named, name_recordings):
    batch = [
        SegmentRequest(samples, hotwords=words_of(one["hotword"]))
        for samples, one in zip(name_recordings, named, strict=True)
    ]
    texts = [unspaced(heard.text) for heard in paraformer.recognize(batch)]
    assert texts == [unspaced(one["text"]) for one in named]
    assert sum(one["hotword"] in text for one, text in zip(named, texts, strict=True)) > len(named) / 2


def test_many_hot_words_are_heard_as_by_funasr(paraformer, named, name_recordings):
    every = tuple(Hotword(one["hotword"]) for one in named)
    heard = paraformer.recognize(requests(name_recordings, hotwords=every))
    assert [unspaced(one.text) for one in heard] == [unspaced(one["text_of_all"]) for one in named]


def test_law_4_unequal_lengths_and_hot_words_of_others_change_nothing(paraformer, named, recordings, name_recordings):
    """FunASR's batches do change the last token and the times; more than 50 hot words even the hot words' effect."""
    every = tuple(Hotword(one["hotword"]) for one in named)
    more_than_fifty = tuple(Hotword(one + two) for one in "一二三四五六七八" for two in "零一二三四五六七")
    lists = [(), every[:1], every[1:3], every, more_than_fifty]
    batch = [
        SegmentRequest(samples[: to_samples(5000 - 90 * index)], hotwords=lists[index % 5], words=True)
        for index, samples in enumerate([*recordings, *name_recordings][::2])
    ]
    for request, heard in zip(batch, paraformer.recognize(batch), strict=True):
        assert_alike(heard, paraformer.recognize([request])[0])


def test_a_segment_without_a_token_spoils_no_batch(paraformer, recordings):
    speech = SegmentRequest(recordings[0], words=True)
    breath = SegmentRequest(np.random.default_rng(1).normal(0, 1e-5, to_samples(60)).astype(np.float32), words=True)
    alone = paraformer.recognize([breath])[0]
    assert alone.text == ""
    (expected,) = paraformer.recognize([speech])
    for before, behind in ((1, 0), (0, 1), (2, 1)):
        heard = paraformer.recognize([*[breath] * before, speech, *[breath] * behind])
        assert_alike(heard.pop(before), expected)
        assert heard == [alone] * (before + behind)


def test_frames_that_are_known_are_not_computed_again(paraformer, recordings):
    request = SegmentRequest(recordings[0], words=True)
    known = dataclasses.replace(request, frames=Fbank().frames(request.samples))
    assert paraformer.recognize([known]) == paraformer.recognize([request])


def test_a_hot_word_that_the_model_cannot_write_is_left_out(paraformer, name_recordings):
    plain = paraformer.recognize(requests(name_recordings[:1]))
    assert paraformer.recognize(requests(name_recordings[:1], hotwords=words_of("于铭莳 ComfyUI"))) == plain


def test_the_order_and_repetition_of_hot_words_change_nothing(paraformer, named, name_recordings):
    words = tuple(Hotword(one["hotword"]) for one in named[:5])
    (heard,) = paraformer.recognize(requests(name_recordings[:1], hotwords=words))
    assert paraformer.recognize(requests(name_recordings[:1], hotwords=(*words[::-1], words[2]))) == [heard]


def test_a_model_without_times_or_hot_words_gives_text_alone(tmp_path, golden, recordings):
    files = tiny.files("tiny-paraformer")
    embedder = HotwordEmbedder(read_graph(files, "model_eb"), HotwordCompiler([]), threads=1)
    model = onnx.load(files["model.onnx"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(embedder.matrix(())[np.newaxis], "bias_embed"))
    for values, unwanted in ((model.graph.input, "bias_embed"), (model.graph.output, "us_")):
        for value in [value for value in values if value.name.startswith(unwanted)]:
            values.remove(value)
    onnx.save(model, tmp_path / "model.onnx")
    plain = OnnxParaformer({**files, "model.onnx": tmp_path / "model.onnx"})
    (heard,) = plain.recognize(requests(recordings[:1], hotwords=words_of("你好"), words=True))
    expected = next(iter(golden["plain"].values()))["text"]
    assert (unspaced(heard.text), heard.words) == (unspaced(expected), ())


def test_other_models_are_refused(tmp_path):
    files = tiny.files("tiny-paraformer")
    with pytest.raises(ModelUnavailable, match=r"model\.onnx is not an export of FunASR's Paraformer"):
        OnnxParaformer({**files, "model.onnx": files["model_eb.onnx"]})
    with pytest.raises(ModelUnavailable, match=r"no model_eb\.onnx"):
        OnnxParaformer({name: file for name, file in files.items() if name != "model_eb.onnx"})
    config = tmp_path / "config.yaml"
    config.write_text(files["config.yaml"].read_text().replace("lfr_m: 7", "lfr_m: 5"))
    with pytest.raises(ModelUnavailable, match="lfr_m"):
        OnnxParaformer({**files, "config.yaml": config})


def test_only_chinese_and_english_are_known(paraformer):
    for code in ("zh", "zh-CN", "en_US"):
        paraformer.check_language(code)
    with pytest.raises(BadRequest):
        paraformer.check_language("de")


def test_a_text_is_of_the_language_of_its_script(paraformer, recordings):
    for heard in paraformer.recognize(requests(recordings)):
        assert heard.language == ("en" if heard.text.isascii() else "zh")


def test_more_than_30_s_are_refused(paraformer):
    with pytest.raises(AudioTooLong):
        paraformer.recognize([SegmentRequest(np.zeros(paraformer.max_samples + 1, np.float32))])


@pytest.mark.parametrize(
    ("phrase", "tokens"),
    [
        ("你好", [0, 1]),
        ("Hello", [2, 3]),
        ("hello 你", [2, 3, 0]),
        ("yes", [4]),
        ("你们", []),
        ("你hi", []),
        ("", []),
    ],
)
def test_a_phrase_is_compiled_word_by_word_or_else_by_characters(tmp_path, phrase, tokens):
    (tmp_path / "seg_dict").write_text("hello hel@@ lo\n你 你\n", encoding="utf-8")
    compiler = HotwordCompiler(["你", "好", "hel@@", "lo", "yes"], tmp_path / "seg_dict")
    assert compiler.tokens(phrase) == tokens


def test_bias_matrices_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(hotwords, "CACHED_SETS", 3)
    files = tiny.files("tiny-paraformer")
    vocabulary = [chr(ord("一") + number) for number in range(40)]
    embedder = HotwordEmbedder(read_graph(files, "model_eb"), HotwordCompiler(vocabulary), threads=1)
    first = embedder.matrix([Hotword("一")])
    assert embedder.matrix([Hotword("一", 3.0)]) is first
    assert embedder.matrix([Hotword("一")], TenantId("other")) is not first  # law 9
    assert first.shape[0] == 2
    for word in vocabulary:
        embedder.matrix([Hotword(word)])
        assert len(embedder._matrices) <= 3
        embedder._matrices.check_integrity()
    again = embedder.matrix([Hotword("一")])
    assert again is not first
    assert np.array_equal(again, first)


def test_a_phrase_longer_than_the_network_reads_is_left_out():
    files = tiny.files("tiny-paraformer")
    embedder = HotwordEmbedder(read_graph(files, "model_eb"), HotwordCompiler(["一"]), threads=1)
    assert len(embedder.matrix([Hotword("一" * 64), Hotword("一")])) == 2


def fires_of(weights):
    sums, total = [], np.float32(0)
    for weight in np.array(weights, np.float32):
        total += weight
        sums.append(total)
        total -= total >= 1 - 1e-4
    return np.array(sums, np.float32)


@given(st.lists(st.floats(0, 1, width=32), max_size=200), st.integers(0, 40), st.integers(1, 70_000))
def test_times_are_monotone_and_inside_the_segment_or_unknown(weights, tokens, samples):
    times = token_times(np.array(weights, np.float32), fires_of(weights), tokens, samples)
    assert len(times) in (0, tokens)
    bounds = [bound for span in times for bound in span]
    assert bounds == sorted(bounds)
    assert all(0 <= bound <= samples for bound in bounds)


def test_weights_that_are_next_to_nothing_tell_no_times():
    weights = np.full(9, np.finfo(np.float32).tiny)
    assert token_times(weights, fires_of(weights), 3, 9 * PLACE_SAMPLES) == []


def test_a_token_lasts_from_its_fire_to_the_next_and_not_longer_than_240_ms():
    fires = np.zeros(60, np.float32)
    fires[[4, 10, 40]] = 1
    assert token_times(fires, fires, 2, 60 * PLACE_SAMPLES) == [(800, 2720), (2720, 6560)]


def test_the_last_token_goes_on_behind_the_last_fire():
    fires = np.zeros(60, np.float32)
    fires[[10, 20]] = 1
    assert token_times(fires, fires, 1, 60 * PLACE_SAMPLES) == [(2720, 12560)]
    fires = fires[:23]
    assert token_times(fires, fires, 1, 23 * PLACE_SAMPLES) == [(2720, 23 * PLACE_SAMPLES)]


def test_seven_frames_are_stacked_every_sixth_and_the_ends_repeated():
    for count in range(1, 40):
        frames = np.arange(count, dtype=np.float32)[:, np.newaxis]
        places = [[6 * row + offset - 3 for offset in range(7)] for row in range(-(-count // 6))]
        assert low_frame_rate(frames).tolist() == np.clip(places, 0, count - 1).tolist()
    assert low_frame_rate(np.empty((0, 80), np.float32)).shape == (0, 560)


def test_texts_are_kept_under_the_libraries_that_compute_features_too(paraformer):
    import onnxruntime

    from streamscribe.models.lfr import FRONT_END

    assert {onnxruntime.__version__, np.__version__, *FRONT_END} <= set(paraformer.identity)
