"""The PyTorch streaming recogniser keeps the contract of all streaming recognisers."""

import numpy as np
import pytest

from streamscribe.models.fbank import Fbank
from tests.contracts.streaming_recognizer import StreamingRecognizerContract
from tests.models import tiny

from .conftest import files_of


@pytest.fixture(scope="module")
def engine(streaming_directory):
    from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

    return TorchStreamingParaformer(files_of(streaming_directory), device="cpu", threads=1)


class TestTorchStreamingParaformer(StreamingRecognizerContract):
    @pytest.fixture
    def recognizer(self, engine):
        return engine

    @pytest.fixture
    def streams(self):
        clips = [tiny.samples(f"plain-{index:02d}.flac") for index in range(6)]
        return [Fbank().frames(np.concatenate(clips[index : index + 2])) for index in (0, 2, 4)]

    @pytest.fixture
    def silence(self):
        return Fbank().frames(np.random.default_rng(0).normal(0, 1e-4, 32_240).astype(np.float32))
