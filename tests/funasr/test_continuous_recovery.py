"""What Nano's language model stage survives: a request that fails alone, a loop that breaks, and breaks again."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamscribe.core.errors import InternalError, ModelUnavailable
from streamscribe.models.ports import DecodeRequest

from .nano_kit import a_request, ask, same, some_requests


class Trouble:
    """Has steps of the language model fail: the next `times` of them, with an error of their own."""

    def __init__(self) -> None:
        self.times = 0
        self.error: Callable[[], BaseException] = lambda: RuntimeError("the device is gone")
        self.go = threading.Event()
        self.go.set()

    def __call__(self, _module: Any, _inputs: Any) -> None:
        self.go.wait(60)
        if self.times:
            self.times -= 1
            raise self.error()


@pytest.fixture
def trouble(nano) -> Iterator[Trouble]:
    made = Trouble()
    handle = nano.parts.language_model.lm_head.register_forward_pre_hook(made)
    yield made
    handle.remove()


@pytest.fixture
def often(monkeypatch) -> None:
    """Trials come often."""
    from streamscribe.models.funasr_torch import continuous

    monkeypatch.setattr(continuous, "RETRY_S", 0.05)


def out_of_memory() -> BaseException:
    import torch

    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


async def together(decoder, requests: list[DecodeRequest]) -> list[Any]:
    return await asyncio.gather(*(ask(decoder, request) for request in requests), return_exceptions=True)


def errors_of(decoder) -> list[str]:
    return [str(told[1]) for told in decoder.told if isinstance(told, tuple)]


async def all_inside(decoder, count: int) -> None:
    while decoder.inflight < count:
        await asyncio.sleep(0.01)


async def all_written(decoder, count: int) -> None:
    while len(decoder._supervisor.batch._running) < count:
        await asyncio.sleep(0.01)


async def test_law_8_a_loop_that_breaks_costs_nobody_an_answer_if_nobody_breaks_the_next(nano, started, trouble):
    requests = some_requests(nano, 11, 6)
    with started(requests=2) as decoder:
        broken = weakref.ref(decoder._supervisor._generation)
        trouble.go.clear()
        asked = asyncio.create_task(together(decoder, requests))
        await all_written(decoder, 2)
        trouble.times = 1
        trouble.go.set()
        heard = await asked
        assert all(same(one, nano.decode([request])[0]) for one, request in zip(heard, requests, strict=True))
        assert decoder.ready
        assert errors_of(decoder) == ["the device is gone"]
        assert decoder.inflight == 0
        gc.collect()
        assert broken() is None
        decoder._batcher.check_integrity()


async def test_law_8_of_those_in_a_loop_only_the_one_that_breaks_it_fails(nano, started, hold):
    requests = some_requests(nano, 14, 8)
    poisoned = requests[2]
    with started(requests=4) as decoder:

        def break_for_the_poisoned() -> None:
            writing = list(decoder._supervisor.batch._running.values())
            if any(one.asked.request is poisoned for one in writing):
                raise RuntimeError("a poisoned request")

        hold(break_for_the_poisoned)
        heard = await together(decoder, requests)
        lost = heard.pop(2)
        assert isinstance(lost, ModelUnavailable)
        assert lost.retry_after_s
        good = [*requests[:2], *requests[3:]]
        assert all(same(one, nano.decode([request])[0]) for one, request in zip(heard, good, strict=True))
        assert decoder.ready
        assert decoder.inflight == 0
        decoder._batcher.check_integrity()


async def test_a_request_that_cannot_be_added_fails_alone(nano, started, trouble, monkeypatch):
    requests = some_requests(nano, 12, 4)
    with started(requests=4) as decoder:
        generation = decoder._supervisor._generation
        scheduler = generation._manager.batch_processor.scheduler
        add = scheduler.add_waiting_request

        def refuse_the_last(state: Any) -> None:
            if state.request_id == "3":
                raise ValueError("no such wish")
            add(state)

        monkeypatch.setattr(scheduler, "add_waiting_request", refuse_the_last)
        trouble.go.clear()
        asked = [asyncio.create_task(ask(decoder, request)) for request in requests]
        await all_inside(decoder, 4)
        trouble.go.set()
        *good, bad = await asyncio.gather(*asked, return_exceptions=True)
        assert type(bad) is InternalError
        assert all(same(one, nano.decode([request])[0]) for one, request in zip(good, requests, strict=False))
        assert decoder.ready
        assert decoder._supervisor._generation is generation
        assert errors_of(decoder) == ["no such wish"]
        while decoder.inflight:
            await asyncio.sleep(0.01)
        decoder._batcher.check_integrity()


async def test_an_answer_that_cannot_be_read_fails_alone(nano, started, monkeypatch):
    with started() as decoder:
        dialogue = decoder._supervisor._dialogue
        tokenizer = dialogue._parts.tokenizer
        decode = tokenizer.decode
        calls = []

        def fail_once(ids: list[int], **how: Any) -> str:
            calls.append(ids)
            if len(calls) == 1:
                raise OverflowError("no such token")
            return decode(ids, **how)

        monkeypatch.setattr(tokenizer, "decode", fail_once)
        with pytest.raises(InternalError):
            await ask(decoder, a_request(nano, 1))
        assert same(await ask(decoder, a_request(nano, 2)), nano.decode([a_request(nano, 2)])[0])
        assert decoder.ready


async def test_out_of_memory_lets_fewer_run_side_by_side_and_the_next_request_succeeds(nano, started, trouble, often):
    requests = some_requests(nano, 13, 8)
    trouble.error = out_of_memory
    with started(requests=4) as decoder:
        trouble.go.clear()
        asked = asyncio.create_task(together(decoder, requests))
        await all_written(decoder, 4)
        trouble.times = 1
        trouble.go.set()
        heard = await asked
        assert all(same(one, nano.decode([request])[0]) for one, request in zip(heard, requests, strict=True))
        assert decoder._supervisor.batch._limits.of(None) == 2
        assert decoder.ready
        assert decoder.ejections == []
        reports = [told for told in decoder.told if not isinstance(told, tuple)]
        assert [sum(report.out_of_memory for report in reports), sum(report.failed for report in reports)] == [1, 0]


async def test_who_runs_out_of_memory_alone_is_told_and_the_next_request_succeeds(nano, started, trouble, often):
    trouble.error = out_of_memory
    with started() as decoder:
        trouble.times = 1
        with pytest.raises(ModelUnavailable, match="too little memory"):
            await ask(decoder, a_request(nano, 1))
        assert ("nano", "out_of_memory") in decoder.ejections
        assert same(await ask(decoder, a_request(nano, 1)), nano.decode([a_request(nano, 1)])[0])
        assert decoder.ready


async def test_one_that_fails_again_and_again_is_ejected_and_comes_back_by_a_trial(nano, started, trouble, often):
    with started(requests=1, max_failures=3) as decoder:
        trouble.times = 1_000_000
        heard = await together(decoder, [a_request(nano, seed) for seed in range(8)])
        assert [type(error) for error in heard] == [ModelUnavailable] * 8
        assert not decoder.ready
        assert isinstance(decoder.outage(), ModelUnavailable)
        assert decoder.ejections == [("nano", "failed")]
        with pytest.raises(ModelUnavailable, match="fails"):
            await ask(decoder, a_request(nano, 1))
        failures = len(errors_of(decoder))
        while len(errors_of(decoder)) < failures + 4:  # trials go on
            await asyncio.sleep(0.02)
        assert not decoder.ready
        trouble.times = 0
        while not decoder.ready:
            await asyncio.sleep(0.02)
        assert decoder.ejections == [("nano", "failed")]
        assert same(await ask(decoder, a_request(nano, 1)), nano.decode([a_request(nano, 1)])[0])
        assert decoder.inflight == 0


async def test_who_sends_what_the_model_cannot_take_ejects_nobody_else(nano, started, trouble):
    with started(requests=1, max_failures=2) as decoder:
        for _ in range(3):
            trouble.times = 2
            assert [type(one) for one in await together(decoder, [a_request(nano, 1)] * 2)] == [ModelUnavailable] * 2
            assert same(await ask(decoder, a_request(nano, 1)), nano.decode([a_request(nano, 1)])[0])
        assert decoder.ready
        assert decoder.ejections == []


async def test_a_loop_that_ends_while_nobody_is_in_it_is_seen_to_by_the_watchdog_or_the_next(nano, started):
    with started() as decoder:
        for seen in (True, False):
            ended = decoder._supervisor._generation
            ended._manager.stop(block=True)
            if seen:
                decoder.fail_if_stalled()
                while decoder._supervisor._generation is ended:
                    await asyncio.sleep(0.01)
            heard = asyncio.create_task(ask(decoder, a_request(nano, 1)))
            await asyncio.sleep(0)
            while not heard.done():
                await asyncio.sleep(0.02)
                decoder.fail_if_stalled()
            assert same(await heard, nano.decode([a_request(nano, 1)])[0])
            assert decoder._supervisor._generation is not ended


async def test_who_left_a_loop_that_broke_harms_nobody(nano, started, trouble):
    with started(requests=3) as decoder:
        trouble.go.clear()
        asked = [asyncio.create_task(ask(decoder, a_request(nano, seed))) for seed in range(6)]
        await all_written(decoder, 3)
        for task in asked[:2]:
            task.cancel()
        await asyncio.sleep(0)
        trouble.times = 1
        trouble.go.set()
        heard = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in heard[:2])
        assert all(same(one, nano.decode([a_request(nano, seed)])[0]) for seed, one in enumerate(heard[2:], 2))
        assert decoder.ready
        while decoder.inflight:
            await asyncio.sleep(0.01)
        table = decoder._supervisor._embedding
        assert table.free == table.table.shape[0]
        decoder._batcher.check_integrity()


async def test_a_request_that_cannot_leave_ends_the_loop_and_not_the_stage(nano, started, trouble, monkeypatch):
    with started(requests=2) as decoder:
        generation = decoder._supervisor._generation

        async def fail(_name: str) -> None:
            raise RuntimeError("the manager has no such request")

        monkeypatch.setattr(generation, "cancel", fail)
        trouble.go.clear()
        asked = [asyncio.create_task(ask(decoder, a_request(nano, seed))) for seed in range(3)]
        await all_written(decoder, 2)
        asked[0].cancel()
        while decoder._supervisor._generation is generation:
            await asyncio.sleep(0.01)
        trouble.go.set()
        heard = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(heard[0], asyncio.CancelledError)
        assert all(same(one, nano.decode([a_request(nano, seed)])[0]) for seed, one in enumerate(heard[1:], 1))
        assert decoder.ready
        assert errors_of(decoder) == ["the manager has no such request"]


async def test_closing_ends_a_stage_that_was_ejected(nano, started, trouble):
    before = set(threading.enumerate())
    with started(requests=1, max_failures=1) as decoder:
        trouble.times = 1_000_000
        await together(decoder, [a_request(nano, 1)] * 2)
    trouble.times = 0
    assert not decoder.ready
    assert {thread for thread in threading.enumerate() if "asyncio" not in thread.name} <= before
