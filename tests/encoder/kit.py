"""An encoder that is a fake, and a service around it whose books are looked at."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager

import numpy as np

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.cachekey import CacheKeys
from streamscribe.core.ids import TenantId
from streamscribe.encoder.encoding import EncodedStep, Lookup
from streamscribe.encoder.service import EncoderService
from streamscribe.models.ports import Embedding, SegmentRequest, Window

SECRET = b"a secret of the tests"
ROW = 1600
POISON = 0.625
"""A first sample that no encoder here survives."""


class OutOfMemoryError(RuntimeError):
    """As PyTorch names its own."""


class FakeEncoder:
    """Not a model: a row for each 100 ms begun, with what the audio there sums up to. Steps wait at a gate."""

    width = 4
    max_samples = 480_000
    front_end = ("fake", 1)
    encoder_identity = ("fake encoder", 1)

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[bytes]] = []
        self.room = 1000
        self.spoil: Callable[[Embedding], Embedding] = lambda rows: rows
        self.batch_error = 0.0
        self.read = 0

    def num_tokens(self, samples, window=Window.SHORT):
        return -(-samples // ROW) * (2 if window is Window.FULL else 1)

    def features(self, samples, frames=None, window=Window.SHORT):
        self.read += 1
        rows = self.num_tokens(len(samples), window)
        padded = np.zeros(rows * ROW, np.float32)
        padded[: len(samples)] = samples
        return padded.reshape(rows, ROW)

    def group(self, features):
        return None

    def encode(self, batch):
        self.batches.append([one.tobytes() for one in batch])
        self.gate.wait()
        if len(batch) > self.room:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if any(one.size and one[0, 0] == np.float32(POISON) for one in batch):
            raise ZeroDivisionError("secret words")
        wrong = self.batch_error if len(batch) > 1 else 0.0
        return [self.spoil(embedding_of(one) + np.float32(wrong)) for one in batch]

    def encoded(self, samples) -> int:
        """How often the audio was in a pass."""
        return sum(batch.count(self.features(samples).tobytes()) for batch in self.batches)


def embedding_of(rows) -> Embedding:
    sums = np.abs(rows).sum(axis=1) if rows.size else np.zeros(0, np.float32)
    return (sums[:, None] * np.arange(1, FakeEncoder.width + 1)).astype(np.float32)


def right(samples) -> Embedding:
    """What the fake encoder makes of the audio."""
    return embedding_of(FakeEncoder().features(samples))


class Recorder:
    """Counts what the service tells."""

    def __init__(self) -> None:
        self.lookups: Counter[Lookup] = Counter()
        self.saved_s = self.read_s = 0.0
        self.steps: list[EncodedStep] = []
        self.cancellations = 0

    def looked_up(self, result, saved_s):
        self.lookups[result] += 1
        self.saved_s += saved_s

    def read(self, spent_s):
        self.read_s += spent_s

    def encoded(self, step):
        self.steps.append(step)

    def cancelled(self):
        self.cancellations += 1


class WatchedCache(StageOutputCache):
    """Remembers what keys it was given."""

    def __init__(self, **how) -> None:
        super().__init__(**{"max_entries": 1000, "max_bytes": 1 << 24, "tenant_share": 1.0, **how})
        self.given: list[str] = []

    def put(self, tenant, key, value, namespace=None):
        self.given.append(key)
        return super().put(tenant, key, value, namespace)


class Rig:
    """A running service."""

    def __init__(self, encoder=None, cache=None, *, features=None, purges=None, **policy) -> None:
        self.encoder = encoder or FakeEncoder()
        self.cache = cache
        self.observer = Recorder()
        self.errors = errors = []
        self.service = EncoderService(
            self.encoder,
            weights="of the fake",
            fingerprints=Fingerprints(SECRET),
            keys=CacheKeys(SECRET),
            cache=cache,
            features=features,
            purges=purges,
            observer=self.observer,
            policy=BatchPolicy(**policy),
            on_error=lambda name, error: errors.append(error),
        )
        self.service.start()
        self.service.wait_ready()
        self.encoder.batches.clear()
        self.encoder.read = 0

    def submit(self, samples, **how):
        priority = how.pop("priority", Priority.NORMAL)
        window = how.pop("window", Window.SHORT)
        return self.service.submit(SegmentRequest(samples, **how), priority=priority, window=window)

    def task(self, samples, **how):
        priority = how.pop("priority", Priority.NORMAL)
        return asyncio.ensure_future(self.service.encode(SegmentRequest(samples, **how), priority=priority))

    def occupy(self, seed: int = 10_000):
        """Closes the gate and returns once a pass of other audio waits there."""
        self.encoder.gate.clear()
        future = self.submit(clip(seed))
        until(lambda: self.encoder.batches)
        return future

    def queued(self, requests: int) -> None:
        """Returns once so many requests wait for the encoder or are in its step."""
        until(lambda: self.service.replica.inflight == requests)


@contextmanager
def rig(encoder=None, cache=None, **how):
    one = Rig(encoder, cache, **how)
    try:
        yield one
        one.service.check_integrity()
    finally:
        one.encoder.gate.set()
        one.service.close()
        assert not one.service.inflight


def until(holds: Callable[[], object]) -> None:
    """Waits for threads to get there."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


def clip(seed: int, size: int = 16_000):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, size).astype(np.float32)


def poisoned(seed: int = 99):
    samples = clip(seed)
    samples[0] = POISON
    return samples


def tenant(name: str) -> TenantId:
    return TenantId(name)


def results(futures: Sequence) -> list:
    return [future.result(timeout=60) for future in futures]
