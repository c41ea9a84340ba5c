"""What a worker may expect of whatever runs its recogniser of segments, here or elsewhere.

A test class inherits it and gives `open_stage`: a running stage over an `Engine`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import numpy as np
import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import AudioTooLong, InternalError, Overloaded
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, Task
from streamscribe.core.tokens import HypothesisWord
from streamscribe.models.ports import Hypothesis, Origin, Samples, SegmentRequest
from streamscribe.models.stage import Stage

POLICY = BatchPolicy(max_batch_size=4, max_batch_s=1000, wait_ms=1, max_waiting_s=1000, max_inflight=64)
FAULTY, TOO_LONG = 666.0, 667.0
"""First samples by which the engine fails, by a defect and by an error of ours."""


class Engine:
    """Says what it was asked, word for word and bit for bit; waits for its `gate` in each step, or only in those that
    have the `deadly` samples. `waits`: it has done so."""

    def __init__(self, deadly: Samples | None = None) -> None:
        self.deadly = deadly
        self.gate = threading.Event()
        self.gate.set()
        self.waits = False
        self.heard: list[SegmentRequest] = []

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        if self.deadly is None or any(np.array_equal(request.samples, self.deadly) for request in batch):
            self.waits = True
            assert self.gate.wait(30)
        for request in batch:
            if request.samples[0] == FAULTY:
                raise ValueError("a defect")
            if request.samples[0] == TOO_LONG:
                raise AudioTooLong("too long for me", field="audio")
        self.heard += batch
        return [said_of(request) for request in batch]


def said_of(request: SegmentRequest) -> Hypothesis:
    how = (request.language, request.task, request.hotwords, request.itn, request.store, request.context)
    text = f"{request.samples.tobytes().hex()[:64]} {hash(request.samples.tobytes())} {how} {request.tenant_id}"
    words = (HypothesisWord("a", 0, 7, 0.25), HypothesisWord("b", 7, 9, 0.5)) if request.words else ()
    return Hypothesis(text, "zh", 0.125, words, True, "happy", ("laughter",))


def segment(number: int, samples: Samples | None = None, **how: object) -> SegmentRequest:
    noise = np.random.default_rng(number).integers(-3000, 3000, 1600).astype(np.float32) / 32768
    origin = Origin(SessionId(f"session-{number % 3}"), number, TraceId("trace"))
    return replace(SegmentRequest(noise if samples is None else samples, origin=origin), **how)  # type: ignore[arg-type]


Segments = Stage[SegmentRequest, Hypothesis]


async def ask(
    stage: Segments, request: SegmentRequest, *, priority: Priority = Priority.URGENT, patient: bool = True
) -> Hypothesis:
    audio_s = len(request.samples) / 16_000
    share = Share(request.tenant_id, 3)
    return await stage.submit(request, priority=priority, audio_s=audio_s, share=share, patient=patient)


class SegmentStageContract:
    def open_stage(self, engine: Engine, policy: BatchPolicy) -> AbstractAsyncContextManager[Segments]:
        raise NotImplementedError

    @pytest.fixture
    def engine(self) -> Engine:
        return Engine()

    @pytest.fixture
    async def stage(self, engine: Engine) -> AsyncIterator[Segments]:
        async with self.open_stage(engine, POLICY) as stage:
            yield stage
            engine.gate.set()

    async def test_each_request_gets_its_own_answer_whoever_shares_its_step(self, stage: Segments) -> None:
        requests = [segment(number, words=number % 2 == 0) for number in range(30)]
        answers = await asyncio.gather(*(ask(stage, request) for request in requests))
        assert answers == [said_of(request) for request in requests]

    async def test_all_that_is_asked_and_heard_arrives_bit_for_bit(self, stage: Segments) -> None:
        fine = np.random.default_rng(1).normal(0, 0.3, 3200).astype(np.float32)
        for samples in (fine, np.array([1.0, -1.0, 0.0, -0.0], np.float32), np.zeros(4000, np.float32)):
            request = segment(
                1,
                samples,
                language="yue",
                task=Task.TRANSLATE,
                hotwords=(Hotword("天気", 2.5), Hotword("b")),
                words=True,
                itn=True,
                tenant_id=TenantId("acme"),
                store=False,
                context="what was said",
            )
            assert await ask(stage, request) == said_of(request)

    async def test_law_8_an_error_is_the_guilty_ones_alone_and_of_its_own_class(self, stage: Segments) -> None:
        faulty, too_long = (np.full(160, sample, np.float32) for sample in (FAULTY, TOO_LONG))
        requests = [segment(1), segment(2, faulty), segment(3), segment(4, too_long), segment(5)]
        answers = await asyncio.gather(*(ask(stage, request) for request in requests), return_exceptions=True)
        assert [answers[i] for i in (0, 2, 4)] == [said_of(requests[i]) for i in (0, 2, 4)]
        assert isinstance(answers[1], InternalError)
        assert isinstance(answers[3], AudioTooLong)
        assert (answers[3].message, answers[3].field) == ("too long for me", "audio")

    async def test_over_its_bounds_it_refuses_all_but_the_patient_who_wait(self, engine: Engine) -> None:
        async with self.open_stage(engine, replace(POLICY, max_inflight=4)) as stage:
            engine.gate.clear()
            inside = [asyncio.ensure_future(ask(stage, segment(number))) for number in range(4)]
            await asyncio.sleep(0.05)
            with pytest.raises(Overloaded):
                await ask(stage, segment(5), patient=False)
            patient = asyncio.ensure_future(ask(stage, segment(6)))
            await asyncio.sleep(0.05)
            assert not patient.done()
            engine.gate.set()
            assert await patient == said_of(segment(6))
            await asyncio.gather(*inside)

    async def test_whoever_gives_a_request_up_frees_its_place(self, engine: Engine) -> None:
        async with self.open_stage(engine, replace(POLICY, max_inflight=4)) as stage:
            engine.gate.clear()
            inside = [asyncio.ensure_future(ask(stage, segment(number))) for number in range(4)]
            await asyncio.sleep(0.2)
            for one in inside:
                one.cancel()
            await asyncio.gather(*inside, return_exceptions=True)
            engine.gate.set()
            assert await ask(stage, segment(9)) == said_of(segment(9))
