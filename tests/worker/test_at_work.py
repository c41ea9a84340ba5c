"""Whether a worker may be in a model's step for what it has settled: a bus asks it of sessions that end workers."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from streamscribe.core.ids import SessionId
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.tokens import Mark
from streamscribe.models.ports import Identity
from tests.worker.kit import HeardRecognizer, HeardStreams, Rig, fake_models, rig, silence, two_pass_models, voice

S = SessionId("s")


async def until_at_rest(worker: Rig) -> None:
    while worker.worker.steps(S):
        await asyncio.sleep(0)


@pytest.mark.parametrize("mode", [Mode.OFFLINE, Mode.TWO_PASS])
async def test_a_worker_is_at_work_for_what_it_has_settled_until_its_final_is_told(mode: Mode) -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    models = fake_models(recognizer) if mode is Mode.OFFLINE else two_pass_models(recognizer=recognizer)
    async with rig(models) as worker:
        await worker.open("s", SessionOptions(mode=mode))
        await worker.send("s", voice(900, 1) + silence(1500))
        await recognizer.entered()
        await worker.heard("s")
        assert worker.worker.steps(S)
        recognizer.gate.set()
        await until_at_rest(worker)
        assert worker.finals("s")
        await worker.end("s")
        await worker.over("s")


@pytest.mark.parametrize("ms", [700, 1600])
async def test_a_worker_is_at_work_for_chunks_of_a_stream_and_at_rest_when_they_are_heard(ms: int) -> None:
    streams = HeardStreams()
    streams.gate.clear()
    async with rig(two_pass_models(streams)) as worker:
        await worker.open("s", SessionOptions(mode=Mode.ONLINE))
        await worker.send("s", voice(ms, 1))
        await streams.entered()
        await worker.heard("s")
        assert worker.worker.steps(S)
        streams.gate.set()
        await until_at_rest(worker)
        assert streams.chunks
        assert not worker.finals("s"), "its segment is open"
        await worker.send("s", silence(1500))
        await worker.end("s")
        await worker.over("s")
        assert worker.finals("s")


class Sealed:
    """A punctuator that stands still in its step until it is let go."""

    identity: Identity = ("sealed",)

    def __init__(self) -> None:
        self.gate, self.entered = threading.Event(), threading.Event()

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        self.entered.set()
        self.gate.wait()
        return [()] * len(batch)


async def test_a_final_is_at_work_here_from_its_recognition_wherever_that_is_to_its_punctuation() -> None:
    recognizer, punctuator = HeardRecognizer(), Sealed()
    recognizer.gate.clear()
    async with rig(two_pass_models(recognizer=recognizer, punctuator=punctuator)) as worker:
        await worker.open("s", SessionOptions(mode=Mode.OFFLINE))
        await worker.send("s", voice(900, 1) + silence(1500))
        await recognizer.entered()
        await worker.heard("s")
        recognised = worker.worker.steps(S)
        recognizer.gate.set()
        await asyncio.to_thread(punctuator.entered.wait)
        assert recognised
        assert worker.worker.steps(S) == recognised, "a step of the same final"
        punctuator.gate.set()
        await until_at_rest(worker)
        assert worker.finals("s")
        await worker.end("s")
        await worker.over("s")


async def test_what_is_over_here_may_be_at_work_for_all_that_is_known() -> None:
    async with rig() as worker:
        assert worker.worker.steps(S) == {S}
