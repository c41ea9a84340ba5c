"""What the encoder service itself costs and gathers, over an encoder of known cost: a step sleeps a + b x size."""

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep

import numpy as np

from streamscribe.bench.replay_load import TENANT, Recognise, drive, percentile
from streamscribe.bench.replay_stage import POLICY, PRIORITY, Telemetry, encoder_service, running
from streamscribe.core.audio import to_samples
from streamscribe.models.ports import Embedding, EncoderInput, Frames, Identity, Samples, SegmentRequest, Window

STEP_S = 0.02
"""a, as a short step of an encoder on a GPU."""
ITEM_S = 0.002
"""b."""

ROUNDS = 5
TOGETHER = 320
ALONE = 40
HITS = 300
HIT_S = 10

_ROW_SAMPLES = 1600
_WIDTH = 16


class StubEncoder:
    """Sleeps for a step; a row of an embedding is the mean of its samples."""

    max_samples = to_samples(30_000)
    front_end: Identity = ("stub", 1)
    encoder_identity: Identity = ("stub", 1)
    width = _WIDTH

    def __init__(self, step_s: float = STEP_S, item_s: float = ITEM_S) -> None:
        self._step_s, self._item_s = step_s, item_s
        self.busy_s = 0.0
        """How long its steps have taken."""

    def num_tokens(self, samples: int, window: Window = Window.SHORT) -> int:
        """A row for each 100 ms."""
        return samples // _ROW_SAMPLES

    def features(self, samples: Samples, frames: Frames | None = None, window: Window = Window.SHORT) -> EncoderInput:
        """The samples of each row."""
        rows = self.num_tokens(len(samples))
        return samples[: rows * _ROW_SAMPLES].reshape(rows, _ROW_SAMPLES)

    def group(self, features: EncoderInput) -> Hashable:
        """All share a step."""

    def encode(self, batch: Sequence[EncoderInput]) -> list[Embedding]:
        """Sleeps, and gives one embedding each."""
        began_s = perf_counter()
        sleep(self._step_s + self._item_s * len(batch))
        embeddings = [np.repeat(one.mean(axis=1, keepdims=True), _WIDTH, axis=1) for one in batch]
        self.busy_s += perf_counter() - began_s
        return embeddings


async def together(*, at_once: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Mean batch and throughput of distinct audio at so many at a time, beside the limit and the ideal. Cold."""
    limit = POLICY.max_batch_size
    ideal_per_s = limit / (STEP_S + ITEM_S * limit)
    telemetry = Telemetry()
    with _service(StubEncoder(), telemetry) as encode:
        telemetry.clear()
        passes = [await drive(encode, _distinct(TOGETHER, turn), at_once=at_once) for turn in range(rounds)]
    return {
        "stub_mean_batch": telemetry.mean_batch,
        "stub_batch_over_limit": telemetry.mean_batch / limit,
        "stub_per_s": median(one.per_s for one in passes),
        "stub_throughput_over_ideal": median(one.per_s for one in passes) / ideal_per_s,
    }


async def alone() -> dict[str, float]:
    """What the service adds to an encode where nobody else asks: the median over requests, cold."""
    encoder = StubEncoder()
    added_s = []
    with _service(encoder, Telemetry()) as encode:
        for request in _distinct(ALONE, ROUNDS):
            busy_s = encoder.busy_s
            one = await drive(encode, [request], at_once=1)
            added_s.append(one.latencies_s[0] - (encoder.busy_s - busy_s))
    return {"alone_added_ms": 1000 * median(added_s), "alone_added_p95_ms": 1000 * percentile(added_s, 95)}


async def hits(*, rounds: int = ROUNDS) -> dict[str, float]:
    """How long a hit of ten seconds of audio takes, asked for one at a time: medians over rounds, warm."""
    request = SegmentRequest(_noise(HIT_S * 1000, 0), tenant_id=TENANT)
    with _service(StubEncoder(), Telemetry()) as encode:
        await encode(request)
        passes = [await drive(encode, [request] * HITS, at_once=1) for _ in range(rounds)]
    return {f"hit_p{percent}_ms": median(one.percentile_ms(percent) for one in passes) for percent in (50, 99)}


async def hops() -> dict[str, float]:
    """What this machine takes, now, for as many changes of threads as an encode alone needs, with nothing to do."""
    with ThreadPoolExecutor(1) as front, ThreadPoolExecutor(1) as owner:

        async def hop(request: SegmentRequest) -> str:
            return await asyncio.wrap_future(front.submit(lambda: owner.submit(str).result()))

        requests = _distinct(1, 0) * HITS
        passes = [await drive(hop, requests, at_once=1) for _ in range(ROUNDS)]
    return {f"machine_hops_p{percent}_ms": median(one.percentile_ms(percent) for one in passes) for percent in (50, 99)}


@contextmanager
def _service(encoder: StubEncoder, telemetry: Telemetry) -> Iterator[Recognise]:
    service = encoder_service(encoder, telemetry, cached=True)
    with running(service):

        async def encode(request: SegmentRequest) -> str:
            await service.encode(request, priority=PRIORITY)
            return ""

        yield encode


def _distinct(count: int, seed: int) -> list[SegmentRequest]:
    return [SegmentRequest(_noise(1000, seed * count + at), tenant_id=TENANT) for at in range(count)]


def _noise(length_ms: int, seed: int) -> Samples:
    return np.random.default_rng(seed).normal(0, 0.1, to_samples(length_ms)).astype(np.float32)
