"""Nano's language model in continuous batches, token for token against `generate`; and who is spared by what fails."""

import asyncio
import gc
import random
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.batching import Priority
from streamscribe.core.errors import AudioTooLong, BadRequest, InternalError, ModelUnavailable, Overloaded
from streamscribe.core.options import Hotword
from streamscribe.models.ports import DecodeRequest, Hypothesis

from .nano_kit import OPEN, a_request, ask, same, some_requests


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_law_4_requests_that_join_and_leave_at_any_time_get_the_tokens_of_generate(nano, started, seed):
    requests = some_requests(nano, seed, 16)
    moments = random.Random(seed)

    async def at_its_moment(request: DecodeRequest) -> Hypothesis:
        await asyncio.sleep(moments.uniform(0, 0.3))
        return await ask(decoder, request, moments.choice(list(Priority)))

    with started(requests=5, rows=128, tokens=1024, step_tokens=32) as decoder:
        heard = await asyncio.gather(*map(at_its_moment, requests))
    expected = [nano.decode([request])[0] for request in requests]
    assert [one.text for one in heard] == [one.text for one in expected]
    assert all(map(same, heard, expected))
    assert len({one.text for one in heard}) > 12
    assert sum(report.batch_size for report in decoder.told) == 16
    assert max(report.batch_size for report in decoder.told) > 1


async def test_another_thread_may_run_the_same_weights_meanwhile(nano, started):
    requests = some_requests(nano, 7, 6)
    expected = [nano.decode([request])[0] for request in requests]
    with started() as decoder:
        beside = asyncio.create_task(asyncio.to_thread(lambda: [nano.decode([one])[0] for one in requests]))
        heard = [await asyncio.gather(*(ask(decoder, request) for request in requests)) for _ in range(3)]
        assert all(map(same, await beside, expected))
    assert all(all(map(same, each, expected)) for each in heard)
    assert all(same(nano.decode([one])[0], before) for one, before in zip(requests, expected, strict=True))


async def test_equal_rows_get_equal_tokens_again_and_again(nano, started):
    with started(rows=32) as decoder:
        heard = [await ask(decoder, a_request(nano, 5)) for _ in range(6)]
        heard += await asyncio.gather(*(ask(decoder, a_request(nano, 5)) for _ in range(6)))
    assert len({one.text for one in heard}) == 1


async def test_an_answer_that_goes_round_is_ended_and_said_once(nano, started):
    requests = [a_request(nano, seed, seconds=30) for seed in range(3)]
    with started() as decoder:
        heard = await asyncio.gather(*(ask(decoder, request) for request in requests))
        assert decoder.inflight <= 3
        await ask(decoder, a_request(nano, 9))
    for one, request in zip(heard, requests, strict=True):
        assert same(one, nano.decode([request])[0])
        assert len(one.text.split()) < 368


async def test_silence_has_no_text_and_waits_for_nothing(nano, started):
    with started() as decoder:
        for silence in (a_request(nano, 1, silent=True), a_request(nano, 1, rows=0)):
            assert await ask(decoder, silence) == Hypothesis("", punctuated=True)


async def test_what_could_spoil_the_others_texts_fails_alone(nano, started):
    good = some_requests(nano, 4, 4)
    not_a_number = a_request(nano, 2)
    not_a_number.embedding[3, 7] = np.nan
    bad: list[tuple[DecodeRequest, type[Exception]]] = [
        (not_a_number, InternalError),
        (replace(good[0], embedding=np.zeros((5, nano.width + 1), np.float32)), InternalError),
        (replace(good[0], embedding=np.zeros(nano.width, np.float32)), InternalError),
        (a_request(nano, 3, rows=129), AudioTooLong),
        (a_request(nano, 3, hotwords=(Hotword("北" * 400),)), BadRequest),
        (a_request(nano, 3, hotwords=(Hotword("\ud800"),)), BadRequest),
        (a_request(nano, 3, language="tlh"), BadRequest),
    ]
    with started(requests=4, rows=128, tokens=512) as decoder:
        together = (ask(decoder, request) for request in [*good, *(request for request, _ in bad)])
        heard = await asyncio.gather(*together, return_exceptions=True)
        assert decoder.ready
    assert all(same(one, nano.decode([request])[0]) for one, request in zip(heard, good, strict=False))
    assert [type(error) for error in heard[4:]] == [kind for _, kind in bad]


async def test_a_full_table_makes_requests_wait_and_too_many_are_refused(nano, started, hold):
    go = threading.Event()
    with started(replace(OPEN, max_waiting_s=3.0), rows=20) as decoder:
        hold(lambda: go.wait(60))
        asked = [asyncio.create_task(ask(decoder, a_request(nano, seed, rows=15))) for seed in range(5)]
        while decoder.inflight < 5:
            await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):  # one is written, one is first in line, three seconds wait
            await ask(decoder, a_request(nano, 6))
        go.set()
        heard = await asyncio.gather(*asked)
    assert all(same(one, nano.decode([a_request(nano, seed, rows=15)])[0]) for seed, one in enumerate(heard))


async def test_who_came_earlier_or_is_more_urgent_is_admitted_first(nano, started, hold):
    go, order = threading.Event(), []

    async def note(name: str, priority: Priority, since_s: float | None = None) -> None:
        await decoder.submit(a_request(nano, 1), priority=priority, audio_s=1.0, since_s=since_s)
        order.append(name)

    with started(requests=1) as decoder:
        hold(lambda: go.wait(60))
        asked = [asyncio.create_task(note("written", Priority.BULK)), asyncio.create_task(note("first", Priority.BULK))]
        while decoder.inflight < 2:
            await asyncio.sleep(0.01)
        asked += [asyncio.create_task(note("late", Priority.BULK)), asyncio.create_task(note("live", Priority.URGENT))]
        asked.append(asyncio.create_task(note("earlier", Priority.URGENT, since_s=time.monotonic() - 60)))
        while decoder.inflight < 5:
            await asyncio.sleep(0.01)
        go.set()
        await asyncio.gather(*asked)
    assert order == ["written", "first", "earlier", "live", "late"]


async def test_who_is_cancelled_leaves_its_room_and_its_company_alone(nano, started, hold):
    go = threading.Event()
    with started(requests=3, rows=40) as decoder:
        hold(lambda: go.wait(60))
        asked = [asyncio.create_task(ask(decoder, a_request(nano, seed, seconds=8))) for seed in range(8)]
        while decoder.inflight < 8:
            await asyncio.sleep(0.01)
        for task in asked[1:]:
            task.cancel()
        go.set()
        assert same(await asked[0], nano.decode([a_request(nano, 0, seconds=8)])[0])
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in results[1:]] == [asyncio.CancelledError] * 7
        heard = await ask(decoder, a_request(nano, 9, rows=40))
        while decoder.inflight:
            await asyncio.sleep(0.01)
    assert same(heard, nano.decode([a_request(nano, 9, rows=40)])[0])


async def test_a_manager_that_hangs_is_waited_for_by_nobody_and_serves_again_when_it_is_free(nano, started, hold):
    go = threading.Event()
    with started(requests=2, step_timeout_s=0.2) as decoder:
        hold(lambda: go.wait(60))
        asked = [asyncio.create_task(ask(decoder, a_request(nano, seed))) for seed in range(4)]
        while not all(task.done() for task in asked):
            await asyncio.sleep(0.02)
            decoder.fail_if_stalled()
        assert all(isinstance(task.exception(), ModelUnavailable) for task in asked)
        assert not decoder.ready
        with pytest.raises(ModelUnavailable, match="does not answer"):
            await ask(decoder, a_request(nano, 1))
        go.set()
        while not decoder.ready:
            await asyncio.sleep(0.02)
            decoder.fail_if_stalled()
        while decoder.inflight:
            await asyncio.sleep(0.01)
        decoder._step_timeout_s = 60
        assert same(await ask(decoder, a_request(nano, 1)), nano.decode([a_request(nano, 1)])[0])
        assert len([told for told in decoder.told if isinstance(told, tuple)]) == 1


async def test_closing_fails_what_is_written_and_leaves_no_thread_and_no_memory_behind(nano, started, hold, capfd):
    before = set(threading.enumerate())
    embedding = nano.parts.language_model.get_input_embeddings()
    go = threading.Event()
    with started() as decoder:
        cache = weakref.ref(decoder._supervisor._generation._manager.batch_processor.cache.cache_tensor)
        asked = [asyncio.create_task(ask(decoder, a_request(nano, seed, seconds=20))) for seed in range(3)]
        hold(lambda: go.wait(0.05))
        while decoder.inflight < 3:
            await asyncio.sleep(0.01)
    heard = await asyncio.gather(*asked, return_exceptions=True)
    assert {str(error) for error in heard} == {"the model nano is shutting down"}
    gc.collect()
    assert cache() is None
    assert set(threading.enumerate()) <= before | {
        thread for thread in threading.enumerate() if thread.name.startswith("asyncio")
    }
    assert nano.parts.language_model.get_input_embeddings() is embedding
    with pytest.raises(ModelUnavailable):
        await ask(decoder, a_request(nano, 1))
    assert "psutil" not in capfd.readouterr().err


async def test_a_loop_that_is_closed_harms_no_other(nano, started):
    with started() as decoder:

        def ask_and_go_away() -> None:
            async def leave() -> None:
                asyncio.get_running_loop().call_later(0.05, asyncio.get_running_loop().stop)
                await ask(decoder, a_request(nano, 1, seconds=20))

            loop = asyncio.new_event_loop()
            task = loop.create_task(leave())
            loop.run_forever()
            task._log_destroy_pending = False  # it is meant to be
            task.get_coro().close()
            loop.close()

        await asyncio.to_thread(ask_and_go_away)
        assert same(await ask(decoder, a_request(nano, 2)), nano.decode([a_request(nano, 2)])[0])
        assert decoder.ready


async def test_requests_of_the_warm_up_wait_for_its_end(nano):
    from streamscribe.models.funasr_torch.continuous import ContinuousDecoder

    decoder = ContinuousDecoder("nano", nano.parts, policy=OPEN, on_step=lambda report: None)
    asked = asyncio.create_task(ask(decoder, a_request(nano, 1)))
    await asyncio.sleep(0)
    assert not decoder.ready
    decoder.start()
    assert same(await asked, nano.decode([a_request(nano, 1)])[0])
    assert decoder.ready
    assert decoder.warmup_s > 0
    decoder.close()


async def test_one_that_was_never_started_fails_its_requests_when_it_is_closed(nano):
    from streamscribe.models.funasr_torch.continuous import ContinuousDecoder

    decoder = ContinuousDecoder("nano", nano.parts, policy=OPEN, on_step=lambda report: None)
    asked = asyncio.create_task(ask(decoder, a_request(nano, 1)))
    await asyncio.sleep(0)
    decoder.close()
    with pytest.raises(ModelUnavailable, match="shutting down"):
        await asked


def test_packages_that_compute_a_shared_step_wrongly_are_found_at_the_start(nano, monkeypatch):
    import torch

    from streamscribe.models.funasr_torch.continuous import ContinuousDecoder

    attend = torch.nn.functional.scaled_dot_product_attention

    def wrong_with_a_mask(query: Any, *rest: Any, attn_mask: Any = None, **how: Any) -> Any:
        return attend(query if attn_mask is None else -query, *rest, attn_mask=attn_mask, **how)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", wrong_with_a_mask)
    told: list[BaseException] = []
    decoder = ContinuousDecoder(
        "nano", nano.parts, policy=OPEN, on_step=lambda report: None, on_error=lambda name, error: told.append(error)
    )
    decoder.start()
    with pytest.raises(ModelUnavailable):
        decoder.wait_ready()
    assert "compute wrongly" in str(told[0])
    decoder.close()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=30))
def test_a_row_of_the_table_has_one_holder_and_its_own_value(moves):
    import torch

    from streamscribe.models.funasr_torch.virtual_embedding import VirtualEmbedding

    words = torch.nn.Embedding(5, 3)
    table = VirtualEmbedding(words, 8)
    held: list[tuple[list[int], Any]] = []
    for number, (leave, rows) in enumerate(moves):
        if leave and held:
            table.give_back(held.pop(leave % len(held))[0])
        elif rows <= table.free:
            value = np.full((rows, 3), number + 1, np.float32)
            held.append((table.hold(value), value))
    ids = [index for taken, _ in held for index in taken]
    assert len(set(ids)) == len(ids) == 8 - table.free
    assert all(5 <= index < 13 for index in ids)
    with torch.inference_mode():
        read = table(torch.tensor([[*range(5), *ids]]))[0]
        assert torch.equal(read[:5], words.weight)
        assert np.array_equal(read[5:], np.concatenate([np.zeros((0, 3)), *(value for _, value in held)]))
