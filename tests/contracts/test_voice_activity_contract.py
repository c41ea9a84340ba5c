"""The fake detector keeps the contract that real ones are held to."""

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.models.fake.voice_activity import FakeVoiceActivityDetector
from tests.contracts.voice_activity import VoiceActivityContract


class TestFakeVoiceActivityDetector(VoiceActivityContract):
    other_block_samples = (160, 800, 3200, 16_000)

    @pytest.fixture
    def vad(self):
        return FakeVoiceActivityDetector()

    @pytest.fixture
    def speech(self):
        return np.random.default_rng(1).normal(0, 0.1, to_samples(3000)).astype(np.float32)
