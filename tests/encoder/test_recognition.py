"""Deferred admission on a fake encoder and a fake language model: what the model is given, when, and in which order."""

import asyncio
import threading

import numpy as np
import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import InternalError, ModelUnavailable, Overloaded
from streamscribe.core.options import Hotword
from streamscribe.encoder.recognition import EncodedRecognition
from streamscribe.models.ports import DecodeRequest, Hypothesis, LookAgain, SegmentRequest, Window
from streamscribe.models.replica import Replica
from tests.encoder.kit import POISON, Rig, clip, poisoned, until


class FakeDecoder:
    """Not a language model: says how many rows it read and what they sum up to. Steps wait at a gate, or one by one."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.steps = threading.Semaphore(0)
        self.asked: list[list[DecodeRequest]] = []
        self.unsure: set[int] = set()

    def decode(self, batch):
        self.asked.append(list(batch))
        while not self.gate.is_set() and not self.steps.acquire(timeout=0.001):
            pass
        return [self._answer(request) for request in batch]

    def _answer(self, request):
        if request.num_samples in self.unsure and request.looked is None:
            return LookAgain(Window.FULL, request.num_samples)
        return Hypothesis(f"{len(request.embedding)} {request.embedding.sum():.2f}", request.language)


class Stages:
    """An encoder service, a language model behind it, and the stage that they are."""

    def __init__(self, **policy) -> None:
        self.rig = Rig(**policy)
        self.encoder = self.rig.encoder
        self.decoder = FakeDecoder()
        policy = BatchPolicy(**policy)
        self.model = Replica("fake language model", self.decoder.decode, policy=policy, on_step=lambda report: None)
        self.model.start()
        self.stage = EncodedRecognition(self.rig.service, self.model, policy=policy)

    def submit(self, samples, *, priority=Priority.URGENT, patient=False, **how):
        request, audio_s = SegmentRequest(samples, **how), len(samples) / 16_000
        return asyncio.ensure_future(self.stage.submit(request, priority=priority, audio_s=audio_s, patient=patient))

    @property
    def read(self) -> list[int]:
        """How much audio each request that the language model was given had, in order."""
        return [request.num_samples for batch in self.decoder.asked for request in batch]


@pytest.fixture
def stages():
    stages = Stages()
    yield stages
    stages.stage.check_integrity()
    close(stages)


def close(stages):
    stages.encoder.gate.set()
    stages.decoder.gate.set()
    for part in stages.stage.parts:
        part.close()


async def test_the_language_model_is_given_whole_embeddings_and_what_was_asked_but_no_audio(stages):
    how = {"language": "en", "hotwords": (Hotword("ComfyUI"),), "words": True, "itn": True}
    heard = await stages.submit(clip(1), **how)
    [[asked]] = stages.decoder.asked
    assert heard.text == f"10 {asked.embedding.sum():.2f}"
    assert asked.embedding.shape == (10, 4)
    assert (asked.num_samples, asked.silent) == (16_000, False)
    assert {name: getattr(asked, name) for name in how} == how


async def test_nothing_is_admitted_before_its_embedding_is_complete(stages):
    stages.encoder.gate.clear()
    task = stages.submit(clip(1))
    await asyncio.to_thread(stages.rig.queued, 1)
    assert not stages.model.inflight
    stages.encoder.gate.set()
    await task
    assert stages.read == [16_000]


async def test_a_segment_that_the_model_is_not_sure_of_is_encoded_in_the_other_window_and_read_again(stages):
    stages.decoder.unsure = {16_000}
    heard = await stages.submit(clip(1))
    assert heard.text.startswith("20 ")
    assert [request.looked for batch in stages.decoder.asked for request in batch] == [None, 16_000]


async def test_a_second_look_does_not_stand_behind_who_came_later():
    stages = Stages(max_batch_size=1)
    stages.decoder.unsure = {16_000}
    stages.decoder.gate.clear()
    tasks = [stages.submit(clip(1))]
    await asyncio.to_thread(until, lambda: stages.decoder.asked)
    for size in (16_001, 16_002):
        tasks.append(stages.submit(clip(2, size)))
        await asyncio.to_thread(until, lambda: stages.model.inflight == len(tasks))
    stages.decoder.steps.release()
    await asyncio.to_thread(until, lambda: len(stages.decoder.asked) == 2 and stages.model.inflight == 3)
    stages.decoder.gate.set()
    stages.decoder.steps.release()
    await asyncio.gather(*tasks)
    assert stages.read == [16_000, 16_001, 16_000, 16_002]
    close(stages)


async def test_law_8_what_cannot_be_encoded_fails_alone_and_never_reaches_the_model(stages):
    clips = [clip(seed, 16_000 + seed) for seed in range(6)]
    clips[2] = poisoned()
    answers = await asyncio.gather(*map(stages.submit, clips), return_exceptions=True)
    assert isinstance(answers.pop(2), InternalError)
    assert all(isinstance(answer, Hypothesis) for answer in answers)
    assert all(request.embedding[0, 0] != POISON for batch in stages.decoder.asked for request in batch)
    assert 2 not in [size - 16_000 for size in stages.read]


async def test_silence_is_neither_encoded_nor_kept_from_the_model(stages):
    await stages.submit(np.zeros(8000, np.float32))
    assert not stages.encoder.batches
    assert stages.decoder.asked[0][0].silent


async def test_equal_segments_share_an_embedding_but_not_an_answer(stages):
    stages.encoder.gate.clear()
    tasks = [stages.submit(clip(1), language=language) for language in ("en", "zh")]
    await asyncio.sleep(0.01)
    stages.encoder.gate.set()
    answers = await asyncio.gather(*tasks)
    assert [answer.language for answer in answers] == ["en", "zh"]
    assert answers[0].text == answers[1].text


async def test_who_is_let_in_is_refused_nowhere_and_who_is_not_costs_no_encoding():
    stages = Stages(max_inflight=2)
    stages.decoder.gate.clear()
    tasks = [stages.submit(clip(seed)) for seed in (1, 2)]
    await asyncio.to_thread(until, lambda: stages.model.inflight == 2)
    with pytest.raises(Overloaded):
        await stages.submit(clip(3))
    assert stages.encoder.encoded(clip(3)) == 0
    patient = [stages.submit(clip(seed), patient=True) for seed in (4, 5)]
    await asyncio.sleep(0.01)
    assert stages.encoder.encoded(clip(4)) == 0
    stages.decoder.gate.set()
    await asyncio.gather(*tasks, *patient)
    await stages.submit(clip(3))
    close(stages)


async def test_cancelling_gives_up_the_place_wherever_it_is(stages):
    stages.encoder.gate.clear()
    encoding = stages.submit(clip(1))
    await asyncio.to_thread(stages.rig.queued, 1)
    encoding.cancel()
    stages.encoder.gate.set()
    stages.decoder.gate.clear()
    running = stages.submit(clip(2, 16_002))
    await asyncio.to_thread(until, lambda: stages.decoder.asked)
    waiting = stages.submit(clip(3, 16_003))
    await asyncio.to_thread(until, lambda: stages.model.inflight == 2)
    waiting.cancel()
    stages.decoder.gate.set()
    await running
    assert stages.read == [16_002]
    await asyncio.gather(encoding, waiting, return_exceptions=True)


async def test_a_part_that_has_stopped_is_an_outage_for_all(stages):
    await asyncio.to_thread(stages.model.close)
    with pytest.raises(ModelUnavailable):
        await stages.submit(clip(1))
    assert any(part.outage() for part in stages.stage.parts)
