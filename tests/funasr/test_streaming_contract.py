"""The PyTorch streaming recogniser keeps the contract of all streaming recognisers."""

import numpy as np
import pytest

from streamscribe.models.fbank import Fbank
from tests.contracts.streaming_recognizer import StreamingRecognizerContract

from .conftest import files_of


class TestTorchStreamingParaformer(StreamingRecognizerContract):
    @pytest.fixture(scope="class")
    def recognizer(self, streaming_directory):
        from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

        return TorchStreamingParaformer(files_of(streaming_directory), device="cpu", threads=1)

    @pytest.fixture(scope="class")
    def streams(self, syllables):
        return [Fbank().frames(syllables(seed, 16_000 * seconds)) for seed, seconds in ((1, 6), (2, 4), (3, 3))]

    @pytest.fixture(scope="class")
    def silence(self):
        return Fbank().frames(np.random.default_rng(0).normal(0, 1e-4, 32_240).astype(np.float32))
