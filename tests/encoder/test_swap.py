"""A recogniser that encodes apart is replaced while it is asked: each version reads its own embeddings only."""

import asyncio
import random

import numpy as np

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.cachekey import CacheKeys
from streamscribe.encoder.recognition import EncodedRecognition
from streamscribe.encoder.service import EncoderService
from streamscribe.models.pool import close_version, start_and_wait
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.models.replica import Replica
from streamscribe.models.slot import Slot
from tests.encoder.kit import SECRET, FakeEncoder, Recorder, WatchedCache, clip, right


def version(number: int, cache: WatchedCache) -> EncodedRecognition:
    """One whose encoder gives `number` times the rows, and whose language model says what they sum up to."""
    encoder = FakeEncoder()
    encoder.spoil = lambda rows: rows * np.float32(number)
    policy = BatchPolicy(wait_ms=0)
    service = EncoderService(
        encoder,
        weights=f"version {number}",
        fingerprints=Fingerprints(SECRET),
        keys=CacheKeys(SECRET),
        cache=cache,
        observer=Recorder(),
        policy=policy,
    )

    def decode(batch):
        return [Hypothesis(f"{number} {request.embedding.sum():.0f}") for request in batch]

    model = Replica("language-model", decode, policy=policy, on_step=lambda report: None)
    return EncodedRecognition(service, model, policy=policy)


async def test_versions_that_change_under_load_never_read_each_others_embeddings():
    cache, clips = WatchedCache(), [clip(seed, 3200) for seed in range(8)]
    slot = Slot(version(1, cache))
    await asyncio.to_thread(start_and_wait, slot.current)
    numbers = {slot.current: 1}
    stop, asked = asyncio.Event(), [0, 0, 0]

    async def listen(seed: int) -> None:
        choose = random.Random(seed)
        while not stop.is_set():
            leased = slot.take()
            for _ in range(choose.randrange(1, 6)):
                samples = choose.choice(clips)
                said = await leased.submit(SegmentRequest(samples), priority=Priority.URGENT, audio_s=0.2)
                number = numbers[leased]
                assert said.text == f"{number} {(right(samples) * np.float32(number)).sum():.0f}"
                asked[number - 1] += 1
            slot.give_back(leased)

    listeners = [asyncio.create_task(listen(seed)) for seed in range(20)]
    for number in (2, 3):
        while asked[number - 2] < 100:
            await asyncio.sleep(0.001)
        newer = await asyncio.to_thread(version, number, cache)
        await asyncio.to_thread(start_and_wait, newer)
        numbers[newer] = number
        former = slot.replace(newer)
        await slot.freed(former)
        await asyncio.to_thread(close_version, former)
        cache.check_integrity()
        assert cache.stats().entries <= len(clips)
    while asked[2] < 100:
        await asyncio.sleep(0.001)
    stop.set()
    await asyncio.gather(*listeners)
    assert cache.asked.hits > 0
    assert cache.stats().entries == len(clips)
    await asyncio.to_thread(close_version, slot.current)
    assert cache.stats().entries == 0
