"""The fake streaming recogniser keeps the contract that real ones are held to."""

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.models.fake.recognizer import POISON
from streamscribe.models.fake.streaming import FakeStreamingRecognizer
from streamscribe.models.ports import ChunkRequest
from tests.contracts.streaming_recognizer import CHUNK_FRAMES, CHUNK_MS, StreamingRecognizerContract, hear


class TestFakeStreamingRecognizer(StreamingRecognizerContract):
    @pytest.fixture
    def recognizer(self):
        return FakeStreamingRecognizer()

    @pytest.fixture
    def streams(self):
        noise = np.random.default_rng(1)
        return [noise.normal(0, 0.1, (frames, 160)).astype(np.float32) for frames in (400, 317, 250)]

    @pytest.fixture
    def silence(self):
        return np.zeros((200, 160), np.float32)

    def test_a_token_is_heard_in_each_400_ms_and_in_the_rest(self, recognizer, streams):
        tokens = hear(recognizer, streams[2])
        assert [token.start for token in tokens] == [to_samples(400) * i for i in range(7)]
        assert tokens[-1].end == 250 * 160

    def test_poison_fails_alone(self, recognizer, streams):
        state, guilty = recognizer.open(CHUNK_MS), recognizer.open(CHUNK_MS)
        poisoned = streams[0][:CHUNK_FRAMES].copy()
        poisoned[30, :16] = np.frombuffer(POISON, dtype="<i2").astype(np.float32) / 32768
        innocent = ChunkRequest(state, streams[0][:CHUNK_FRAMES])
        with pytest.raises(ValueError, match="poison"):
            recognizer.step([innocent, ChunkRequest(guilty, poisoned)])
        assert len(recognizer.step([innocent])[0]) == 1
