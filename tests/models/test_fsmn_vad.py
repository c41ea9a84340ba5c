"""FSMN-VAD with FunASR's real weights: equal to FunASR's own segments, alone and in batches, at any age."""

import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from streamscribe.core.audio import to_ms, to_samples
from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.fsmn_vad import FsmnVad
from streamscribe.models.fsmn_vad.graph import batched
from streamscribe.models.fsmn_vad.network import Network
from streamscribe.models.ports import Samples, VadOptions, VadRequest
from streamscribe.models.registry import open_verified
from tests.contracts.voice_activity import VoiceActivityContract, blocks, hear, silence

pytestmark = pytest.mark.models

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("STREAMSCRIBE_SHARED_AUDIO") or ROOT.parent / "shared/audio")
GOLDEN = json.loads((ROOT / "tests/golden/fsmn_vad.json").read_text())["recordings"]
TOLERANCE_MS = 20


def _tool():
    spec = importlib.util.spec_from_file_location("golden_vad", ROOT / "tools/golden_vad.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


read_channels = _tool().read_channels


@pytest.fixture(scope="module")
def vad(model_dir) -> FsmnVad:
    return FsmnVad.load(model_dir)


@pytest.fixture(scope="module")
def clips(model_dir) -> list[Samples]:
    """Recordings of two languages and the telephone, 1 to 6 s."""
    names = (
        "demo-recordings/en/counting.wav",
        "demo-recordings/zh/jishu.wav",
        "telephone-prompts/agent-alreadyon.g722",
    )
    return [_samples(read_channels(model_dir / name)[0]) for name in names]


def _samples(pcm) -> Samples:
    return pcm.astype(np.float32) / 32768


def _golden_cases():
    """Every recording with golden values whose set is on this machine; the catalogue's sets are on each."""
    for entry in GOLDEN:
        if entry["set"] != "shared" or SHARED.is_dir():
            yield pytest.param(entry, id=f"{entry['set']}/{entry['file']}#{entry['channel']}")


@pytest.mark.parametrize("entry", list(_golden_cases()))
def test_segments_agree_with_those_of_funasr(vad, model_dir, entry):
    folder = SHARED if entry["set"] == "shared" else model_dir / entry["set"]
    pcm = read_channels(folder / entry["file"])[entry["channel"]]
    if not entry["file"].endswith(".mp3"):
        assert hashlib.sha256(pcm.tobytes()).hexdigest() == entry["pcm_sha256"]
    for case in entry["cases"]:
        events = hear(vad, _samples(pcm), VadOptions(case["silence_ms"]))
        segments = [(to_ms(start.at), to_ms(end.at)) for start, end in zip(events[::2], events[1::2], strict=True)]
        assert len(segments) == len(case["segments"])
        assert np.abs(np.subtract(segments, case["segments"])).max(initial=0) <= TOLERANCE_MS


def test_the_golden_values_hold_the_telephone_and_both_languages():
    files = [(entry["set"], entry["file"]) for entry in GOLDEN]
    assert sum(name == "telephone-prompts" for name, _ in files) >= 20
    assert {file[:3] for name, file in files if name == "demo-recordings"} == {"en/", "zh/"}
    assert sum(name == "shared" for name, _ in files) >= 8


class TestContract(VoiceActivityContract):
    other_block_samples = (160, 777, 3200, 16_000)

    @pytest.fixture
    def vad(self, vad):
        return vad

    @pytest.fixture
    def speech(self, clips):
        return clips[0]


def test_rows_of_a_batch_come_out_as_they_do_alone(model_dir):
    network = Network(open_verified("fsmn-vad", model_dir)["model.onnx"], threads=1)
    random = np.random.default_rng(7)
    features = random.standard_normal((9, 10, 400)).astype(np.float32)
    memories = [
        tuple(random.standard_normal(layer.shape).astype(np.float32) for layer in network.new_memory())
        for _ in features
    ]
    together, memories_after = network.run(features, memories)
    for row in range(len(features)):
        alone, (memory_after,) = network.run(features[row : row + 1], [memories[row]])
        np.testing.assert_allclose(together[row], alone[0], atol=1e-5)
        for layer, layer_alone in zip(memories_after[row], memory_after, strict=True):
            np.testing.assert_allclose(layer, layer_alone, atol=1e-5)


@pytest.mark.parametrize(("streams", "frames"), [(1, 1), (1, 10), (3, 2), (64, 10), (5, 100)])
def test_the_graph_that_is_run_computes_bit_for_bit_what_the_exported_one_does(model_dir, streams, frames):
    exported = onnx.load(open_verified("fsmn-vad", model_dir)["model.onnx"])
    ours = batched(exported.SerializeToString())
    assert not any(
        helper.get_attribute_value(node.attribute[0]) == [0, 3, 2, 1]
        for node in onnx.load_model_from_string(ours).graph.node
        if node.op_type == "Transpose"
    )
    for value in (*exported.graph.input, *exported.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    theirs = ort.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(7)
    shapes = {
        one.name: (streams, frames if one.name == "speech" else one.shape[1], *one.shape[2:])
        for one in theirs.get_inputs()
    }
    given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    expected = theirs.run(None, given)
    for one, other in zip(ort.InferenceSession(ours, options).run(None, given), expected, strict=True):
        assert np.array_equal(one, other)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 12)), min_size=2, max_size=6))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_law_4_streams_that_join_and_leave_hear_what_they_hear_alone(vad, clips, plan):
    """Each stream is a clip, the turn at which it joins, and its silence in tenths of a second."""
    options = [VadOptions(silence_ms=100 * tenths) for *_, tenths in plan]
    queues = [blocks(clips[clip], vad.block_samples) for clip, *_ in plan]
    states = [vad.open(chosen) for chosen in options]
    together = [[] for _ in plan]
    for turn in range(max(joined + len(queue) for queue, (_, joined, _) in zip(queues, plan, strict=True))):
        present = [i for i, (_, joined, _) in enumerate(plan) if 0 <= turn - joined < len(queues[i])]
        batch = [VadRequest(states[i], *queues[i][turn - plan[i][1]]) for i in present]
        for i, heard in zip(present, vad.step(batch), strict=True):
            together[i] += heard.events
    assert together == [hear(vad, clips[clip], chosen) for (clip, *_), chosen in zip(plan, options, strict=True)]


@pytest.mark.parametrize("noise", [0.0, 0.002], ids=["digital", "hiss"])
def test_law_7_after_ten_minutes_of_silence_speech_is_found_in_its_place_by_a_state_that_did_not_grow(
    vad, clips, noise
):
    def held_bytes(state):
        return sum(held.nbytes for held in (state.samples, state.context, *state.memory))

    hiss = np.random.default_rng(3).normal(0, noise, to_samples(1000)).astype(np.float32)
    state, sizes, events = vad.open(VadOptions()), [], []
    quiet = blocks(np.tile(hiss, 600), vad.block_samples)
    for block, _ in quiet:
        events += vad.step([VadRequest(state, block)])[0].events
        sizes.append(held_bytes(state))
    assert events == []
    assert max(sizes) == max(sizes[:10]) < 45_000
    assert len(set(sizes[1:])) == 1

    spoken = np.concatenate([clips[0], silence(1500)])
    for block, last in blocks(spoken, vad.block_samples):
        events += vad.step([VadRequest(state, block, last)])[0].events
    fresh = hear(vad, np.concatenate([hiss, hiss, spoken]), VadOptions())
    shift = to_samples(600_000 - 2_000)
    assert [event.started for event in events] == [True, False]
    assert [event.at - shift for event in events] == pytest.approx([event.at for event in fresh], abs=to_samples(20))


def test_a_stream_shorter_than_a_frame_has_no_voice(vad):
    assert hear(vad, silence(20), VadOptions()) == []


def test_a_model_with_other_settings_than_this_code_computes_is_refused(model_dir, tmp_path):
    files = dict(open_verified("fsmn-vad", model_dir))
    files["config.yaml"] = Path(shutil.copy(files["config.yaml"], tmp_path))
    text = files["config.yaml"].read_text()
    files["config.yaml"].write_text(text.replace("lfr_m: 5", "lfr_m: 7"))
    with pytest.raises(ModelUnavailable, match=r"lfr_m other than 5"):
        FsmnVad(files)


def test_a_changed_model_is_not_loaded(model_dir, tmp_path):
    shutil.copytree(model_dir / "fsmn-vad", tmp_path / "fsmn-vad")
    with (tmp_path / "fsmn-vad/model.onnx").open("r+b") as file:
        file.seek(1000)
        file.write(b"\x00\x01")
    with pytest.raises(ModelUnavailable, match=r"model\.onnx"):
        FsmnVad.load(tmp_path)
