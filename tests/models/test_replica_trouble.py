"""Steps that run out of memory, and steps that do not end."""

import asyncio
import weakref

import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import ModelUnavailable, TooLarge
from streamscribe.models.out_of_memory import is_out_of_memory
from streamscribe.models.replica import Replica
from tests.models.replica_kit import HUGE, Bench, OutOfMemoryError


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.engine.gate.set()
    bench.replica.close()


async def test_a_batch_too_large_for_the_memory_is_run_in_smaller_ones_and_so_are_those_after_it():
    bench = Bench(max_batch_size=8)
    bench.engine.room = 2
    first = await bench.occupy()
    tasks = [bench.submit(number) for number in range(1, 13)]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    assert await asyncio.gather(first, *tasks) == [2 * number for number in range(13)]
    bench.replica.close()
    assert [len(step) for step in bench.engine.steps] == [1, 8, 4, 2, 2, 2, 2, 2, 2]
    assert bench.errors == []
    assert [(report.out_of_memory, report.failed) for report in bench.reports] == [(0, 0), (2, 0), (0, 0), (0, 0)]
    assert bench.reports[-1].batch_limit == 2


async def test_a_request_too_large_for_the_memory_fails_alone_and_may_come_back(bench):
    first = await bench.occupy()
    tasks = [bench.submit(number) for number in (1, HUGE, 3)]
    await asyncio.sleep(0)
    bench.engine.gate.set()
    answers = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert answers[:2] + answers[3:] == [0, 2, 6]
    assert type(answers[2]) is ModelUnavailable
    assert answers[2].retry_after_s
    assert bench.replica.ready


async def test_what_a_step_had_in_memory_when_it_ran_out_is_let_go_before_the_smaller_ones_and_with_its_error():
    class Tensor:
        """Stands for gigabytes."""

    held: list[weakref.ref[Tensor]] = []

    def step(batch):
        assert all(tensor() is None for tensor in held)
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        raise OutOfMemoryError("CUDA out of memory", tensor)

    replica = Replica("greedy", step, policy=BatchPolicy(max_batch_size=4), on_step=lambda report: None)
    asked = [replica.submit(number, priority=Priority.NORMAL, audio_s=1) for number in range(4)]
    replica.start()
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in errors] == [ModelUnavailable] * 4
    assert len(held) == 6  # four together, two of them, and then each alone
    assert all(tensor() is None for tensor in held)
    replica.close()


async def test_what_a_step_had_in_memory_is_let_go_with_an_error_of_ours_too_whatever_it_was_made_of():
    class Tensor:
        """Stands for gigabytes."""

    held: list[weakref.ref[Tensor]] = []

    def step(batch):
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        try:
            raise ZeroDivisionError(tensor)
        except ZeroDivisionError as error:
            if batch[0] % 2:
                raise TooLarge("too long for this model") from error
            raise TooLarge("too long for this model") from None

    replica = Replica("strict", step, policy=BatchPolicy(max_batch_size=4), on_step=lambda report: None)
    asked = [replica.submit(number, priority=Priority.NORMAL, audio_s=1) for number in range(4)]
    replica.start()
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in errors] == [TooLarge] * 4
    assert all(tensor() is None for tensor in held)
    replica.close()


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (OutOfMemoryError(), True),
        (RuntimeError("bfc_arena.cc:360 AllocateRawInternal Failed to allocate memory for requested buffer"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("shapes do not match"), False),
        (TooLarge("out of memory, says the client"), False),
    ],
)
def test_what_counts_as_out_of_memory(error, short):
    assert is_out_of_memory(error) == short


async def test_a_step_that_hangs_fails_all_that_waits_and_all_that_comes_until_it_ends():
    bench = Bench(step_timeout_s=0)
    bench.engine.gate.set()
    assert await bench.submit(1) == 2
    assert bench.replica.ready
    bench.replica.fail_if_stalled()
    bench.engine.gate.clear()
    bench.engine.began.acquire()
    hanging = await bench.occupy()
    assert not bench.replica.ready
    with pytest.raises(ModelUnavailable, match="doubler does not answer") as refused:
        await bench.submit(2)
    assert refused.value.retry_after_s
    for _ in range(3):
        bench.replica.fail_if_stalled()
    with pytest.raises(ModelUnavailable):
        await hanging
    assert [type(error) for _, error in bench.errors] == [ModelUnavailable]
    bench.engine.gate.set()
    while bench.replica.stalled:
        await asyncio.to_thread(bench.replica.fail_if_stalled)
    assert bench.replica.ready
    assert await bench.submit(3) == 6
    assert bench.replica.inflight == 0
    bench.replica.close()


async def test_what_waited_behind_a_step_that_hangs_is_not_computed_when_it_ends():
    bench = Bench(step_timeout_s=0.05)
    hanging = await bench.occupy()
    waiting = bench.submit(1)
    await asyncio.sleep(0)
    while not bench.replica.stalled:
        await asyncio.sleep(0.01)
    bench.replica.fail_if_stalled()
    answers = await asyncio.gather(hanging, waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ModelUnavailable, ModelUnavailable]
    assert answers[0] is not answers[1]
    bench.engine.gate.set()
    bench.replica.close()
    assert bench.engine.steps == [[0]]
