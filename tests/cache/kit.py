"""What the tests of cache levels share."""

import numpy as np
import pytest

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.redis import RedisBlobs
from streamscribe.cache.transcripts import Said, Sources, Transcripts
from streamscribe.core.cachekey import CacheKeys
from streamscribe.core.ids import TenantId
from streamscribe.core.tokens import HypothesisWord, Mark
from streamscribe.models.ports import Hypothesis, Samples
from streamscribe.ports import BlobStore

SECRET = b"a secret of a test, long enough."
KEYS = CacheKeys(SECRET)
SOURCES = Sources(("recognizer", 1, "sum"), ("punctuator", 1, "sum"))
ACME, OTHER = TenantId("acme"), TenantId("other")
SAID = Said(
    Hypothesis(
        "你好 world",
        "zh",
        0.1 + 0.2,
        (HypothesisWord("你", 0, 1600, 1 / 3), HypothesisWord("好", 1600, 3200, 0.5)),
        emotion="happy",
        events=("laughter",),
    ),
    (Mark(2, "，"),),
)


def patient_with_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, what is kept in Redis is waited for."""
    monkeypatch.setitem(RedisBlobs.__init__.__kwdefaults__, "timeout_s", 30)


def noise(seed: int = 0, samples: int = 16_000) -> Samples:
    return np.random.default_rng(seed).uniform(-1, 1, samples).astype(np.float32)


def memory() -> MemoryBlobs:
    return MemoryBlobs(max_bytes=2**24)


def transcripts(blobs: BlobStore) -> Transcripts:
    return Transcripts(blobs, KEYS, Fingerprints(SECRET), ttl_s=100)
