"""Many sessions beside each other: what one does, no other notices."""

import asyncio
import gc
import random
import weakref
from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamscribe.core.batching import BatchPolicy
from streamscribe.core.errors import InternalError, ModelUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.records import Failed, Finished, Recognised, SpeechStarted, SpeechStopped
from streamscribe.models.fake.recognizer import POISON, FakeRecognizer
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.settings import WorkerSettings
from streamscribe.worker.track import AudioTrack
from tests.worker.kit import OFFLINE, HeardRecognizer, fake_models, rig, said, silence, speech, voice


async def test_a_hundred_sessions_with_texts_of_their_own_never_mix() -> None:
    rng = random.Random(1)
    audio = {
        f"s{seed}": speech(seed, *(rng.randrange(400, 2500, 10) for _ in range(rng.randrange(1, 4))))
        for seed in range(100)
    }
    modes = [SessionOptions(mode=mode, words=True) for mode in Mode]
    async with rig() as worker:

        async def client(name: str, seed: int) -> None:
            rng = random.Random(seed)
            await worker.open(name, rng.choice(modes))
            at = 0
            while at < len(audio[name]):
                size = rng.randrange(1, 20_000)
                await worker.send(name, audio[name][at : at + size], size)
                at += size
                worker.worker.check_integrity()
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
            await worker.end(name)
            await worker.over(name)

        await asyncio.gather(*(client(name, seed) for seed, name in enumerate(audio)))
        together = {name: [result[3:] for result in said(worker.finals(name))] for name in audio}
        assert worker.worker.sessions == 0
        for name in random.Random(2).sample(sorted(audio), 20):
            alone = await worker.transcribe(f"alone-{name}", audio[name], replace(OFFLINE, words=True))
            assert together[name] == [result[3:] for result in said(alone)]
        texts = [tuple(result[0] for result in results) for results in together.values()]
        assert len(set(texts)) == len(texts)
        assert all(texts)


async def test_law_8_a_segment_that_cannot_be_recognised_fails_its_session_alone() -> None:
    good = speech(1, 1500, 1500)
    bad = voice(1000, 2) + POISON * 4 + voice(1000, 3) + silence(1500)
    async with rig() as worker:
        await worker.open("bad", OFFLINE)
        await worker.open("good", OFFLINE)
        await asyncio.gather(worker.send("bad", bad), worker.send("good", good))
        failed = await worker.over("bad")
        assert isinstance(failed, Failed)
        assert type(failed.error) is InternalError
        await worker.end("good")
        assert isinstance(await worker.over("good"), Finished)
        assert len(worker.finals("good")) == 2
        assert worker.observer.of("segment_failed") == [("default",)]


async def test_a_failed_session_is_forgotten_and_what_still_comes_for_it_is_dropped() -> None:
    async with rig() as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", voice(1000, 2) + POISON * 4 + silence(2000))
        await worker.over("s")
        told = len(worker.events["s"])
        await worker.send("s", speech(1, 1500))
        await worker.end("s")
        assert worker.worker.sessions == 0
        assert len(worker.events["s"]) == told


class _Gone(FakeRecognizer):
    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        raise ModelUnavailable


async def test_the_error_of_a_model_reaches_the_client_as_it_is() -> None:
    async with rig(fake_models(_Gone())) as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", speech(1, 1500))
        failed = await worker.over("s")
        assert isinstance(failed, Failed)
        assert type(failed.error) is ModelUnavailable


async def test_an_abandoned_session_is_forgotten_at_once_with_its_queued_work() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer, BatchPolicy(max_batch_size=1))) as worker:
        recognizer.gate.clear()
        await worker.open("s", OFFLINE)
        await worker.send("s", speech(1, 1000, 1000, 1000))
        await recognizer.entered()
        told = len(worker.events["s"])
        await worker.abandon("s")
        assert worker.worker.sessions == 0
        await task_over("s")
        recognizer.gate.set()
        assert await worker.transcribe("next", speech(2, 1000), OFFLINE)
        assert len(recognizer.requests) == 2  # the one that ran, and the next session's
        assert len(worker.events["s"]) == told
        assert worker.observer.of("stream_closed") == [("default",), ("default",)]


async def test_law_7_a_session_with_too_many_finals_pending_reads_no_more() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    settings = WorkerSettings(max_pending_finals=2)
    async with rig(fake_models(recognizer), settings=settings, max_backlog_s=1) as worker:
        await worker.open("busy", OFFLINE)
        sending = asyncio.ensure_future(worker.send("busy", speech(1, *[500] * 6)))
        await recognizer.entered()
        await worker.open("other", OFFLINE)
        await worker.send("other", voice(500, 9))
        await worker.until("other", lambda event: isinstance(event, SpeechStarted))
        assert not sending.done()
        assert not worker.bus.room(SessionId("busy"), 32_000)
        started = [event for event in worker.events["busy"] if isinstance(event, SpeechStarted)]
        assert len(started) <= 3
        recognizer.gate.set()
        await sending
        await worker.end("busy")
        await worker.over("busy")
        assert len(worker.finals("busy")) == 6


FILE = replace(OFFLINE, live=False)
WHOLE = 10**9
"""All audio in one record."""


async def test_the_segments_of_a_file_gather_until_they_fill_two_steps() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(fake_models(recognizer, BatchPolicy(max_batch_size=3)), max_backlog_s=60) as worker:
        await worker.open("file", FILE)
        await worker.send("file", speech(1, *[500] * 10), WHOLE)
        await worker.end("file")
        await recognizer.entered()
        stopped = [event for event in worker.events["file"] if isinstance(event, SpeechStopped)]
        assert len(stopped) >= 6
        recognizer.gate.set()
        await worker.over("file")
        assert len(worker.finals("file")) == 10  # the last four, which fill less, at the end


@pytest.mark.parametrize("flushed", [False, True])
async def test_a_segment_of_a_file_waits_for_no_company_when_no_audio_waits_or_a_flush_asks(flushed: bool) -> None:
    async with rig(max_backlog_s=60) as worker:
        await worker.open("file", FILE)
        await worker.send("file", speech(1, 500, 500), WHOLE)
        if flushed:
            await worker.flush("file", "m")
            await worker.flushed("file", "m")
        await worker.until("file", lambda event: isinstance(event, Recognised) and event.result.end_ms > 2900)


@pytest.mark.parametrize(
    ("policy", "held"),
    [(BatchPolicy(max_batch_size=3), 9), (BatchPolicy(max_batch_size=3, max_batch_s=2.8), 4), (BatchPolicy(1), 3)],
)
async def test_law_7_a_file_has_three_steps_of_segments_pending_and_reads_no_more(
    policy: BatchPolicy, held: int
) -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    settings = WorkerSettings(max_pending_finals=1)
    async with rig(fake_models(recognizer, policy), settings=settings, max_backlog_s=1) as worker:
        await worker.open("file", FILE)
        sending = asyncio.ensure_future(worker.send("file", speech(1, *[2000] * 14)))
        await recognizer.entered()
        await worker.until("file", lambda event: isinstance(event, SpeechStopped) and event.at_ms > 3100 * held)
        await worker.open("other", OFFLINE)
        await worker.send("other", voice(500, 9))
        await worker.until("other", lambda event: isinstance(event, SpeechStarted))
        assert not sending.done()
        assert not worker.bus.room(SessionId("file"), 32_000)
        started = [event for event in worker.events["file"] if isinstance(event, SpeechStarted)]
        assert held <= len(started) <= held + 1
        recognizer.gate.set()
        await sending
        await worker.end("file")
        await worker.over("file")
        assert len(worker.finals("file")) == 14


async def test_finals_wait_where_the_model_is_overloaded() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(fake_models(recognizer, BatchPolicy(max_batch_size=1, max_waiting_s=1))) as worker:
        names = [f"s{index}" for index in range(5)]
        for name in names:
            await worker.open(name, OFFLINE)
            await worker.send(name, voice(1500, 3) + silence(1000))
            await worker.end(name)
        await recognizer.entered()
        recognizer.gate.set()
        for name in names:
            assert isinstance(await worker.over(name), Finished)
            assert len(worker.finals(name)) == 1


async def test_law_7_ten_minutes_of_silence_bring_no_text() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s")
        for _ in range(10):
            await worker.send("s", silence(60_000), 16_000)
        await worker.send("s", speech(5, 2000))
        await worker.end("s")
        await worker.over("s")
        [final] = worker.finals("s")
        assert (final.start_ms, final.end_ms) == (601_200, 603_200)
        assert all(request.samples.any() for request in recognizer.requests)


@pytest.mark.parametrize("how", ["finished", "failed", "abandoned"])
async def test_what_a_session_held_is_freed_when_it_is_over(how: str) -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", voice(1000, 1) + silence(1500))
        await worker.until("s", lambda event: isinstance(event, Recognised))
        [track] = tracks()
        held = weakref.ref(track)
        del track
        recognizer.batches.clear()
        match how:
            case "finished":
                await worker.end("s")
                await worker.over("s")
            case "failed":
                await worker.send("s", voice(1000, 1) + POISON * 4 + silence(1500))
                await worker.over("s")
            case "abandoned":
                await worker.send("s", voice(1000, 1))
                await worker.abandon("s")
        await task_over("s")
        assert held() is None


async def task_over(name: str) -> None:
    """Returns when the worker's task of the session, which may have been cancelled, is done."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == f"session-{name}"]
    if tasks:
        await asyncio.wait(tasks)


async def test_law_7_what_a_session_holds_does_not_grow_with_its_age() -> None:
    async with rig() as worker:
        await worker.open("s", OFFLINE)
        held = []
        for minute in range(6):
            await worker.send("s", silence(60_000), 16_000)
            await worker.heard("s")
            held.append([track.held for track in tracks()])
            await worker.send("s", voice(2000, minute) + silence(1500))
        assert held == [held[0]] * 6
        assert sum(held[0]) <= 16_000


def tracks() -> list[AudioTrack]:
    gc.collect()
    return [thing for thing in gc.get_objects() if issubclass(type(thing), AudioTrack)]
