"""A session whose recogniser is replaced while it speaks: which version hears what."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from streamscribe.core.audio import to_samples
from streamscribe.core.options import MAX_SEGMENT_MS, EndpointOptions, SessionOptions
from streamscribe.core.records import Finished
from streamscribe.models.pool import Models, Recognition, close_version, start_and_wait
from tests.worker.kit import OFFLINE, HeardRecognizer, Rig, fake_models, replica_of, rig, silence, voice

LIVE = SessionOptions()


class ShortWinded(HeardRecognizer):
    """Takes less than a session may wish for."""

    @property
    def max_samples(self) -> int:
        return to_samples(20_000)


def recognizer_with(tail_padding_ms: int) -> HeardRecognizer:
    recognizer = ShortWinded()
    recognizer.tail_padding_ms = tail_padding_ms
    return recognizer


@asynccontextmanager
async def replaced(models: Models, recognizer: HeardRecognizer) -> AsyncIterator[None]:
    """The recogniser is the current one; in the end the former has nobody left and is closed."""
    version = Recognition(recognizer, replica_of(recognizer))
    await asyncio.to_thread(start_and_wait, version)
    former = models.recognition.replace(version)
    yield
    await models.recognition.freed(former)
    await asyncio.to_thread(close_version, former)


def heard(recognizer: HeardRecognizer) -> list[int]:
    return [len(request.samples) for request in recognizer.requests if not request.draft]


async def say(worker: Rig, data: bytes) -> None:
    await worker.send("s", data)
    await worker.heard("s")


@pytest.mark.parametrize("tails_ms", [(0, 400), (120, 300), (300, 0)])
async def test_law_6_a_segment_has_the_tail_of_the_version_that_hears_it(tails_ms: tuple[int, int]) -> None:
    first, second = map(recognizer_with, tails_ms)
    models = fake_models(first)
    async with rig(models) as worker:
        await worker.open("s", LIVE)
        await say(worker, silence(1200) + voice(900, 1))
        async with replaced(models, second):
            await say(worker, voice(600, 2) + silence(1200) + voice(1500, 3) + silence(1200))
            await worker.end("s")
            assert isinstance(await worker.over("s"), Finished)
        assert heard(first) == [to_samples(300 + 1500 + tails_ms[0])]
        assert heard(second) == [to_samples(300 + 1500 + tails_ms[1])]


async def test_law_7_a_version_with_a_longer_tail_gets_no_longer_segments_than_it_takes() -> None:
    """Of voice without a pause, too: there each segment begins where the one before was cut."""
    first, second = recognizer_with(0), recognizer_with(2000)
    models = fake_models(first)
    longest = replace(OFFLINE, endpoint=EndpointOptions(max_segment_ms=MAX_SEGMENT_MS))
    most = first.max_samples
    async with rig(models) as worker:
        await worker.open("s", longest)
        await say(worker, voice(9000, 1))
        async with replaced(models, second):
            for seed in range(2, 14):
                await say(worker, voice(9000, seed))
            await say(worker, silence(3000))
            await worker.end("s")
            assert isinstance(await worker.over("s"), Finished)
        assert max(heard(first)) > most - to_samples(2500)
        assert len(heard(second)) > 2
        assert all(length <= most for length in heard(second))
        assert max(heard(second)) <= most - to_samples(300)


async def test_a_session_that_is_silent_keeps_no_version_that_was_replaced() -> None:
    models = fake_models(recognizer_with(300))
    async with rig(models) as worker:
        await worker.open("s", LIVE)
        await say(worker, silence(1200) + voice(900, 1) + silence(1500))
        async with replaced(models, recognizer_with(0)):
            await worker.recognised()
        assert len(models.recognition.versions) == 1
        await worker.end("s")
        await worker.over("s")
