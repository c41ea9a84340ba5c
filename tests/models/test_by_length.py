"""Two recognisers by a segment's length: each answers its own, and kept answers name who gave them."""

import asyncio
from dataclasses import replace

import numpy as np

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.models.by_length import recognition_by_length
from streamscribe.models.fake.recognizer import FakeRecognizer
from streamscribe.models.pool import Recognition, close_version, start_and_wait
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.models.replica import Replica
from tests.worker.kit import HeardRecognizer

UP_TO = 16_000


class Named(HeardRecognizer):
    """The fake with an identity of its own."""

    def __init__(self, name: str, tail_padding_ms: int, max_samples: int = 480_000) -> None:
        super().__init__()
        self.tail_padding_ms = tail_padding_ms
        self._name = name
        self._most = max_samples

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self._name,)

    @property
    def max_samples(self) -> int:
        return self._most


def recognition(engine: FakeRecognizer, weights: str) -> Recognition:
    stage: Replica[SegmentRequest, Hypothesis] = Replica(
        weights, engine.recognize, policy=BatchPolicy(wait_ms=0), on_step=lambda report: None
    )
    return Recognition(engine, stage, weights)


def request(samples: int) -> SegmentRequest:
    return SegmentRequest(np.random.default_rng(samples).normal(0, 0.1, samples).astype(np.float32))


async def test_segments_go_to_the_one_of_their_length_at_the_limit_and_beside_it() -> None:
    short, long = Named("short", 100), Named("long", 300)
    both = recognition_by_length(recognition(short, "s"), recognition(long, "l"), UP_TO)
    await asyncio.to_thread(start_and_wait, both)
    requests = [request(UP_TO + more) for more in (-1, 0, 1)]
    heard = [await both.stage.submit(one, priority=Priority.URGENT, audio_s=1) for one in requests]
    assert [len(one.samples) for batch in short.batches for one in batch] == [UP_TO - 1, UP_TO]
    assert [len(one.samples) for batch in long.batches for one in batch] == [UP_TO + 1]
    assert heard == both.recognizer.recognize(requests)
    assert [both.source(one) for one in requests] == [("s", "short"), ("s", "short"), ("l", "long")]
    assert [part.name for part in both.parts] == ["s", "l"]
    assert all(part.ready for part in both.parts)
    await asyncio.to_thread(close_version, both)


def test_it_needs_what_both_need_and_a_short_one_gets_no_more_than_it_takes() -> None:
    short, long = Named("short", 100, max_samples=8000), Named("long", 300)
    both = recognition_by_length(recognition(short, "s"), recognition(long, "l"), UP_TO).recognizer
    assert both.tail_padding_ms == 300
    assert both.max_samples == long.max_samples
    both.recognize([request(8000), request(8001)])
    assert [len(one.samples) for batch in short.batches for one in batch] == [8000]


def test_how_many_sessions_there_are_is_told_to_both() -> None:
    parts = recognition(Named("short", 0), "s"), recognition(Named("long", 0), "l")
    both = recognition_by_length(*parts, UP_TO)
    both.stage.population = 7
    assert [part.stage.population for part in parts] == [7, 7]
    assert both.stage.population == 7


def test_what_one_of_them_samples_is_not_kept_and_what_the_other_says_is() -> None:
    class Sampling(Named):
        deterministic = False

    both = recognition_by_length(recognition(Named("short", 0), "s"), recognition(Sampling("long", 0), "l"), UP_TO)
    assert [both.deterministic(request(UP_TO + more)) for more in (0, 1)] == [True, False]
    assert not both.recognizer.deterministic


def test_only_the_one_that_reads_what_was_said_before_is_told() -> None:
    reading = replace(recognition(Named("long", 0), "l"), reads_on=True)
    both = recognition_by_length(recognition(Named("short", 0), "s"), reading, UP_TO)
    assert [both.reads_context(request(UP_TO + more)) for more in (0, 1)] == [False, True]
