"""The model of production size, of which the tests make a thin one."""

import copy

import numpy as np
import pytest

from streamscribe.bench import real_size
from streamscribe.models.fbank import Fbank
from streamscribe.models.paraformer.streaming_onnx import OnnxStreamingParaformer
from tests.contracts.streaming_recognizer import hear

from .conftest import files_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    config = copy.deepcopy(dict(real_size.CONFIG))
    config["encoder_conf"] |= {"num_blocks": 2, "linear_units": 64}
    config["decoder_conf"] |= {"num_blocks": 1, "att_layer_num": 1, "linear_units": 64}
    directory = tmp_path_factory.mktemp("thin")
    real_size.random_streaming_paraformer(directory, config)
    return directory


@pytest.fixture(scope="module")
def frames():
    return Fbank().frames(np.random.default_rng(0).normal(0, 0.1, 16_000 * 6).astype(np.float32))


def test_random_weights_speak_in_pytorch(directory, frames):
    from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

    assert 10 <= len(hear(TorchStreamingParaformer(files_of(directory)), frames)) <= 60


@pytest.mark.filterwarnings("ignore")  # of the exporter, for what FunASR's modules do while they are traced
def test_random_weights_speak_as_an_int8_export(directory, frames, tmp_path):
    real_size.export_int8(directory, tmp_path)
    assert {"model_quant.onnx", "decoder_quant.onnx"} <= files_of(tmp_path).keys()
    assert 10 <= len(hear(OnnxStreamingParaformer(files_of(tmp_path)), frames)) <= 60
