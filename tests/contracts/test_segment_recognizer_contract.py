"""The fake recogniser keeps the contract that real ones are held to."""

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.models.fake.recognizer import FakeRecognizer
from tests.contracts.segment_recognizer import SegmentRecognizerContract


class TestFakeRecognizer(SegmentRecognizerContract):
    @pytest.fixture
    def recognizer(self):
        return FakeRecognizer()

    @pytest.fixture
    def utterances(self):
        noise = np.random.default_rng(1)
        return [noise.normal(0, 0.1, to_samples(ms)).astype(np.float32) for ms in (1000, 2300, 4170)]
