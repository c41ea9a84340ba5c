"""The streaming Paraformer on ONNX Runtime: as FunASR hears, many sessions in one run."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import soundfile
import yaml
from onnxruntime.quantization import QuantType, quantize_dynamic

import streamscribe.models
from streamscribe.core.errors import BadRequest, ModelUnavailable
from streamscribe.models.fbank import Fbank
from streamscribe.models.paraformer.chunk_decoder import ChunkDecoder
from streamscribe.models.paraformer.features import ChunkFrontend, row_count
from streamscribe.models.paraformer.offline_onnx import OnnxParaformer
from streamscribe.models.paraformer.streaming_onnx import OnnxStreamingParaformer
from streamscribe.models.ports import ChunkRequest, SegmentRequest
from tests.contracts.streaming_recognizer import CHUNK_FRAMES, CHUNK_MS, StreamingRecognizerContract, chunks, hear

ROOT = Path(__file__).parents[2]
BUNDLED = Path(streamscribe.models.__file__).parent / "bundled"
MODEL = BUNDLED / "tiny-paraformer-streaming"
CLIPS = ROOT / "src/streamscribe/models/bundled/tiny-recordings"
GOLDEN = json.loads((ROOT / "tests/golden/paraformer_streaming.json").read_text(encoding="utf-8"))
FEATURES = np.load(ROOT / "tests/golden/paraformer_features.npz")
NAMES = list(GOLDEN["clips"])


def _tool():
    spec = importlib.util.spec_from_file_location("golden_paraformer", ROOT / "tools/golden_paraformer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fit = _tool().fit


def _files(directory: Path) -> dict[str, Path]:
    return {file.name: file for file in directory.iterdir()}


@pytest.fixture(scope="module")
def engine() -> OnnxStreamingParaformer:
    return OnnxStreamingParaformer(_files(MODEL))


@pytest.fixture(scope="module")
def clips() -> dict[str, np.ndarray]:
    """Frames of what the golden values were made of."""
    fbank = Fbank()
    return {name: fbank.frames(fit(soundfile.read(CLIPS / name, dtype="float32")[0])) for name in NAMES}


class TestContract(StreamingRecognizerContract):
    @pytest.fixture
    def recognizer(self, engine):
        return engine

    @pytest.fixture
    def streams(self, clips):
        return [np.concatenate((clips[a], clips[b])) for a, b in zip(NAMES[::2], NAMES[1::2], strict=False)][:4]

    @pytest.fixture
    def silence(self):
        return Fbank().frames(np.zeros(32_240, np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_has_the_tokens_of_funasr(engine, clips, name):
    for chunk_ms, expected in GOLDEN["clips"][name].items():
        assert [token.text for token in hear(engine, clips[name], int(chunk_ms))] == expected


def test_most_golden_clips_are_heard_as_they_were_spoken():
    spoken = {entry["file"]: entry["tokens"] for entry in json.loads((CLIPS / "manifest.json").read_bytes())}
    right = sum(tokens["600"] == spoken[name] for name, tokens in GOLDEN["clips"].items())
    assert right >= 0.8 * len(NAMES)


def test_law_5_tokens_begin_where_the_offline_model_finds_their_words(engine, clips):
    offline, apart_ms = OnnxParaformer(_files(BUNDLED / "tiny-paraformer")), []
    for name, frames in clips.items():
        tokens, samples = hear(engine, frames), soundfile.read(CLIPS / name, dtype="float32")[0]
        (heard,) = offline.recognize([SegmentRequest(samples, words=True)])
        if [token.text for token in tokens] == [word.text for word in heard.words]:
            apart_ms += [abs(token.start - word.start) / 16 for token, word in zip(tokens, heard.words, strict=True)]
    assert len(apart_ms) > 40
    assert np.median(apart_ms) < 100
    assert np.quantile(apart_ms, 0.9) < 200


def test_rows_are_those_of_funasr_however_a_stream_ends(clips):
    frontend = ChunkFrontend(MODEL / "am.mvn")
    for name in FEATURES.files:
        rows, context = [], None
        for chunk, last in chunks(clips[name]):
            count = row_count(len(chunk)) if last else CHUNK_FRAMES // 6
            rows.append(frontend.rows([context], [chunk], count)[0])
            context = chunk[-3:]
        np.testing.assert_allclose(np.concatenate(rows)[:, ::40], FEATURES[name], rtol=0, atol=1e-4)


def test_law_4_the_decoder_hears_and_remembers_in_company_what_it_does_alone_also_beyond_its_memory():
    decoder, random = ChunkDecoder(_files(MODEL), threads=1), np.random.default_rng(2)
    counts, lengths = np.array([3, 12, 14, 0, 12, 1, 10]), np.array([20, 20, 13, 20, 18, 10, 30])
    encoded, embeddings = (random.normal(0, 1, (7, size, 128)).astype(np.float32) for size in (30, 14))
    histories = list(random.normal(0, 1, (7, decoder.layers, 128, decoder.history)).astype(np.float32))
    together = decoder.run(encoded, lengths, embeddings, counts, histories)
    assert [len(said.ids) for said in together] == counts.tolist()
    for i, said in enumerate(together):
        one = slice(i, i + 1)
        (alone,) = decoder.run(encoded[one], lengths[one], embeddings[one], counts[one], histories[one])
        assert said.ids == alone.ids
        np.testing.assert_allclose(said.confidences, alone.confidences, atol=1e-4)
        np.testing.assert_allclose(said.history, alone.history, atol=1e-4)


@pytest.mark.parametrize("count", [0, CHUNK_FRAMES - 1, CHUNK_FRAMES + 1])
def test_a_chunk_of_another_length_is_refused(engine, clips, count):
    with pytest.raises(BadRequest, match="a chunk is 60 frames of 80 bands"):
        engine.step([ChunkRequest(engine.open(CHUNK_MS), clips[NAMES[0]][:count])])


def test_a_state_with_values_that_are_no_numbers_is_refused(engine):
    data = bytearray(engine.dump(engine.open(CHUNK_MS)))
    data[-4:] = np.float32(np.nan).tobytes()
    with pytest.raises(BadRequest, match="no number"):
        engine.restore(bytes(data))


@pytest.mark.parametrize(("section", "name", "value"), [(None, "model", "Paraformer"), ("frontend_conf", "lfr_m", 5)])
def test_a_model_of_another_kind_is_refused(tmp_path, section, name, value):
    files = _files(MODEL)
    config = yaml.safe_load(files["config.yaml"].read_text())
    (config if section is None else config[section])[name] = value
    files["config.yaml"] = tmp_path / "config.yaml"
    files["config.yaml"].write_text(yaml.safe_dump(config))
    with pytest.raises(ModelUnavailable, match=name):
        OnnxStreamingParaformer(files)


def test_quantised_graphs_are_read_where_they_are_the_ones(tmp_path, engine, clips):
    for file in ("config.yaml", "tokens.json", "am.mvn"):
        shutil.copy(MODEL / file, tmp_path)
    for graph in ("model", "decoder"):
        _quantise(MODEL / f"{graph}.onnx", tmp_path / f"{graph}_quant.onnx")
    quantised = OnnxStreamingParaformer(_files(tmp_path))
    same = [
        [token.text for token in hear(quantised, clips[name])] == [token.text for token in hear(engine, clips[name])]
        for name in NAMES
    ]
    assert 0.8 * len(same) <= sum(same)


def _quantise(graph: Path, quantised: Path) -> None:
    """As FunASR exports int8 graphs; their weights must be folded first."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(quantised)
    onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    kinds = {"op_types_to_quantize": ["MatMul"], "per_channel": True, "weight_type": QuantType.QUInt8}
    quantize_dynamic(quantised, quantised, **kinds)
    assert any(node.op_type == "MatMulInteger" for node in onnx.load(quantised).graph.node)
