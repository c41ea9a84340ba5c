"""The models of a worker, start to end, on the fakes."""

import asyncio
import threading
import time

import numpy as np
import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import InternalError, ModelUnavailable
from streamscribe.models.fake.recognizer import POISON, FakeRecognizer
from streamscribe.models.fake.voice_activity import FakeVoiceActivityDetector
from streamscribe.models.pool import Models, Recognition, Replica
from streamscribe.models.ports import SegmentRequest, VadOptions, VadRequest


@pytest.fixture
def models():
    vad, recognizer = FakeVoiceActivityDetector(), FakeRecognizer(cost_ms=1)
    models = Models(
        vad,
        Replica("vad", vad.step, policy=BatchPolicy(), on_step=lambda report: None, warm_up=[lambda: vad.step([])]),
        Recognition(
            recognizer, Replica("recognizer", recognizer.recognize, policy=BatchPolicy(), on_step=lambda report: None)
        ),
    )
    yield models
    models.close()


async def test_they_are_ready_once_all_are_warm_and_no_more_after_the_close(models):
    assert not models.ready
    models.start()
    await asyncio.to_thread(models.wait_ready)
    assert models.ready
    assert models.warmup_s.keys() == {"vad", "recognizer"}
    await asyncio.to_thread(models.close)
    assert not models.ready
    with pytest.raises(ModelUnavailable):
        models.wait_ready()


async def test_many_streams_are_heard_side_by_side_and_a_poisoned_segment_fails_alone(models):
    models.start()
    noise = np.random.default_rng(3)
    audio = [noise.normal(0, 0.1, 16_000).astype(np.float32) for _ in range(20)]

    async def one(samples):
        state = models.vad.open(VadOptions())
        events = []
        for start in range(0, len(samples), 1600):
            request = VadRequest(state, samples[start : start + 1600], last=start + 1600 >= len(samples))
            told = await models.vad_replica.submit(request, priority=Priority.NORMAL, audio_s=0.1, exclusive=id(state))
            events += told.events
        heard = await models.recognition.current.stage.submit(
            SegmentRequest(samples), priority=Priority.URGENT, audio_s=len(samples) / 16_000
        )
        return [event.at for event in events], heard.text

    audio[7][8000:8016] = np.frombuffer(POISON, dtype="<i2").astype(np.float32) / 32768
    answers = await asyncio.gather(*(one(samples) for samples in audio), return_exceptions=True)
    assert isinstance(answers.pop(7), InternalError)
    assert all(times == [0, 16_000] for times, _ in answers)
    assert len({text for _, text in answers}) == 19


async def test_a_model_that_hangs_makes_them_unready_fails_who_waits_and_recovers():
    vad, recognizer, gate = FakeVoiceActivityDetector(), FakeRecognizer(), threading.Event()

    def step(batch):
        gate.wait()
        return recognizer.recognize(batch)

    models = Models(
        vad,
        Replica("vad", vad.step, policy=BatchPolicy(), on_step=lambda report: None),
        Recognition(
            recognizer,
            Replica("recognizer", step, policy=BatchPolicy(), on_step=lambda report: None, step_timeout_s=0.01),
        ),
    )
    assert models.outage() is None
    models.start()
    await asyncio.to_thread(models.wait_ready)
    watch = asyncio.create_task(models.watch())
    request = SegmentRequest(np.zeros(1600, np.float32))
    with pytest.raises(ModelUnavailable, match="recognizer does not answer"):
        await models.recognition.current.stage.submit(request, priority=Priority.URGENT, audio_s=0.1)
    assert not models.ready
    assert isinstance(models.outage(), ModelUnavailable)
    assert models.vad_replica.ready
    gate.set()
    while not models.ready:
        await asyncio.sleep(0.01)
    assert models.outage() is None
    watch.cancel()
    await asyncio.to_thread(models.close)
    assert isinstance(models.outage(), ModelUnavailable)


def test_a_close_during_the_warm_up_lets_no_model_begin_another_run():
    let_go, began, ran = threading.Event(), threading.Semaphore(0), []

    def first():
        began.release()
        let_go.wait()

    def replica(name):
        runs = [first, lambda: ran.append(name)]
        return Replica(name, list, policy=BatchPolicy(), on_step=lambda report: None, warm_up=runs)

    recognition = Recognition(FakeRecognizer(), replica("recognizer"))
    models = Models(FakeVoiceActivityDetector(), replica("vad"), recognition)
    models.start()
    for _ in models.replicas:
        began.acquire()
    closing = threading.Thread(target=models.close)
    closing.start()
    while any(replica.outage() is None for replica in models.replicas):
        time.sleep(0.001)
    let_go.set()
    closing.join()
    assert ran == []


def test_a_stage_that_takes_anothers_place_is_told_how_many_sessions_there_are(models):
    models.population = 3
    new = Replica("recognizer", FakeRecognizer().recognize, policy=BatchPolicy(), on_step=lambda report: None)
    models.recognition.replace(Recognition(FakeRecognizer(), new))
    assert new.population == 0
    models.tell_population()
    assert new.population == models.population == 3
