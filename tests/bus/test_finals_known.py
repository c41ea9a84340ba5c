"""What a finalizer knows of requests that come again, without a broker: heard once, while anybody waits."""

import asyncio
import dataclasses

import pytest

from streamscribe.bus.kafka.finals.known import KEEP_S, MAX_KNOWN, Answer, Known
from streamscribe.cache.purges import Purges
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.wire.final_requests import FinalHeard, FinalRequest, SampleFormat

S = SessionId("s")


def request_of(segment_id: int, fingerprint: str = "f", *, store: bool = True) -> FinalRequest:
    return FinalRequest(S, segment_id, TraceId("t"), "w", 0, 0, 1000, fingerprint, SampleFormat.S16, b"", store=store)


def later() -> float:
    """When patience ends that outlives a test."""
    return asyncio.get_running_loop().time() + 60


class Hearer:
    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answers: list[Answer | BaseException] = []

    async def __call__(self) -> Answer:
        self.calls += 1
        call = self.calls
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else FinalHeard(f"heard {call}")
        if isinstance(answer, BaseException) and not isinstance(answer, ModelUnavailable):
            raise answer
        return answer


async def test_equal_requests_are_heard_once_at_one_time_and_afterwards() -> None:
    known, hear = Known(Purges()), Hearer()
    hear.gate.clear()
    together = [asyncio.ensure_future(known.answer(request_of(1), hear, later())) for _ in range(3)]
    await asyncio.sleep(0)
    hear.gate.set()
    assert await asyncio.gather(*together) == [FinalHeard("heard 1")] * 3
    assert await known.answer(request_of(1), hear, later()) == FinalHeard("heard 1")
    assert (hear.calls, known.repeated) == (1, 3)
    assert await known.answer(request_of(1, "other"), hear, later()) == FinalHeard("heard 2")
    assert await known.answer(request_of(2), hear, later()) == FinalHeard("heard 3")


async def test_neither_errors_are_remembered_nor_what_may_not_be_stored() -> None:
    known, hear = Known(Purges()), Hearer()
    hear.answers = [ModelUnavailable("once")]
    assert isinstance(await known.answer(request_of(1), hear, later()), ModelUnavailable)
    assert await known.answer(request_of(1), hear, later()) == FinalHeard("heard 2")
    assert await known.answer(request_of(2, store=False), hear, later()) == FinalHeard("heard 3")
    assert await known.answer(request_of(2, store=False), hear, later()) == FinalHeard("heard 4")


async def test_whoever_waits_for_one_that_is_given_up_hears_itself() -> None:
    known, hear = Known(Purges()), Hearer()
    hear.gate.clear()
    first, second = (asyncio.ensure_future(known.answer(request_of(1), hear, later())) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    hear.gate.set()
    assert await second == FinalHeard("heard 2")
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_what_nobody_waits_for_any_more_is_given_up() -> None:
    known, hear = Known(Purges()), Hearer()
    hear.gate.clear()
    now = asyncio.get_running_loop().time()
    assert await known.answer(request_of(1), hear, now) is None
    hear.gate.set()
    assert await known.answer(request_of(1), hear, later()) == FinalHeard("heard 2")


@pytest.mark.parametrize("longest", [0, 1, 2])
async def test_of_several_that_wait_for_one_answer_the_most_patient_counts(longest: int) -> None:
    known, hear = Known(Purges()), Hearer()
    hear.gate.clear()
    now = asyncio.get_running_loop().time()
    patience = [later() if number == longest else now for number in range(3)]
    together = [asyncio.ensure_future(known.answer(request_of(1), hear, until_s)) for until_s in patience]
    for _ in range(5):
        await asyncio.sleep(0)
    hear.gate.set()
    assert await asyncio.gather(*together) == [FinalHeard("heard 1")] * 3
    assert hear.calls == 1


async def test_whoever_comes_while_one_is_given_up_hears_itself() -> None:
    known, hear, ended = Known(Purges()), Hearer(), asyncio.Event()
    giving_up = asyncio.Event()

    async def slow_to_end() -> Answer:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            giving_up.set()
            await ended.wait()

    first = asyncio.ensure_future(known.answer(request_of(1), slow_to_end, asyncio.get_running_loop().time()))
    await giving_up.wait()
    second = asyncio.ensure_future(known.answer(request_of(1), hear, later()))
    await asyncio.sleep(0)
    ended.set()
    assert (await first, await second) == (None, FinalHeard("heard 1"))


async def test_a_time_out_of_who_hears_is_no_end_of_patience() -> None:
    known, hear = Known(Purges()), Hearer()
    hear.answers = [TimeoutError()]
    with pytest.raises(TimeoutError):
        await known.answer(request_of(1), hear, later())


async def test_the_oldest_answers_are_forgotten() -> None:
    known, hear = Known(Purges()), Hearer()
    for segment_id in range(MAX_KNOWN + 1):
        await known.answer(request_of(segment_id), hear, later())
    await known.answer(request_of(MAX_KNOWN), hear, later())
    assert hear.calls == MAX_KNOWN + 1
    await known.answer(request_of(0), hear, later())
    assert hear.calls == MAX_KNOWN + 2


async def test_what_is_purged_is_forgotten_and_so_is_what_was_heard_meanwhile() -> None:
    purges = Purges()
    known, hear = Known(purges), Hearer()
    of_acme = dataclasses.replace(request_of(1), tenant_id=TenantId("acme"))
    await known.answer(of_acme, hear, later())
    await known.answer(request_of(2), hear, later())
    hear.gate.clear()
    of_acme_too = dataclasses.replace(of_acme, segment_id=3)
    heard_now = asyncio.ensure_future(known.answer(of_acme_too, hear, later()))
    await asyncio.sleep(0)
    await asyncio.to_thread(purges.purge, TenantId("acme"))
    hear.gate.set()
    await heard_now
    known.sweep()
    assert [key[1] for key in known._kept] == [2]
    assert await known.answer(of_acme, hear, later()) == FinalHeard("heard 4")
    assert await known.answer(request_of(2), hear, later()) == FinalHeard("heard 2")


async def test_answers_are_kept_for_a_minute() -> None:
    now = [0.0]
    known, hear = Known(Purges(), lambda: now[0]), Hearer()
    await known.answer(request_of(1), hear, later())
    now[0] = KEEP_S - 0.1
    await known.answer(request_of(1), hear, later())
    assert hear.calls == 1
    now[0] = KEEP_S
    await known.answer(request_of(1), hear, later())
    assert hear.calls == 2
    now[0] = 2 * KEEP_S
    known.sweep()
    assert not known._kept


async def test_an_answer_that_is_heard_anew_is_the_newest() -> None:
    now = [0.0]
    known, hear = Known(Purges(), lambda: now[0]), Hearer()
    await known.answer(request_of(1), hear, later())
    now[0] = KEEP_S / 2
    await known.answer(request_of(2), hear, later())
    now[0] = KEEP_S
    await known.answer(request_of(1), hear, later())
    now[0] = 1.5 * KEEP_S
    known.sweep()
    assert [key[1] for key in known._kept] == [1]
    for segment_id in range(3, MAX_KNOWN + 2):
        await known.answer(request_of(segment_id), hear, later())
    heard = hear.calls
    await known.answer(request_of(1), hear, later())
    assert hear.calls == heard
