"""The parts of finals over Kafka, without a broker: what is counted, tried alone, and carried."""

import asyncio
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from streamscribe.bus.kafka.finals.codec import heard_of, hypothesis_of, question, read_question
from streamscribe.bus.kafka.finals.isolation import Isolation
from streamscribe.bus.kafka.finals.ledger import Ledger
from streamscribe.bus.kafka.finals.trying import ENDINGS_TOGETHER, Trying
from streamscribe.core.batching import Priority
from streamscribe.core.errors import BadRequest, Quarantined
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.options import Hotword
from streamscribe.core.tokens import HypothesisWord
from streamscribe.models.ports import Hypothesis, Origin, Samples, SegmentRequest
from streamscribe.wire.final_requests import FinalRequest, SampleFormat, encode_request
from tests.contracts.finals_rig import MemoryAttempts

ORIGIN = Origin(SessionId("s"), 3, TraceId("t"))
S = SessionId("s")


def asked(request: SegmentRequest, priority: Priority = Priority.URGENT, number: int = 0) -> FinalRequest:
    return question(
        request, priority=priority, share=Share("acme", 2), asked_by="w", number=number, reply_to=1, patience_ms=1000
    )


@given(arrays.arrays(np.float32, st.integers(0, 200), elements=st.floats(-2, 2, width=32)))
def test_samples_arrive_bit_for_bit(samples: Samples) -> None:
    _, request = read_question(encode_request(asked(SegmentRequest(samples, origin=ORIGIN))))
    assert request.samples.dtype == np.float32
    assert np.array_equal(request.samples, samples)


@given(st.lists(st.integers(-32768, 32767)))
def test_what_a_client_sent_in_16_bits_goes_on_in_16_bits(pcm: list[int]) -> None:
    samples = np.array(pcm, np.float32) / 32768
    sent = asked(SegmentRequest(samples, origin=ORIGIN))
    assert (sent.sample_format, len(sent.audio)) == (SampleFormat.S16, 2 * len(pcm))
    assert np.array_equal(read_question(encode_request(sent))[1].samples, samples)


def test_audio_that_is_no_numbers_is_a_bad_request() -> None:
    sent = asked(SegmentRequest(np.array([np.nan, np.inf, 0.1], np.float32), origin=ORIGIN))
    with pytest.raises(BadRequest, match="finite"):
        read_question(encode_request(sent))


def test_equal_questions_have_equal_fingerprints_whoever_asks_and_others_have_others() -> None:
    samples = np.ones(10, np.float32)
    request = SegmentRequest(samples, origin=ORIGIN)
    same = {asked(request).fingerprint, asked(request, Priority.BULK, number=9).fingerprint}
    others = [
        SegmentRequest(samples / 2, origin=ORIGIN),
        SegmentRequest(samples, origin=ORIGIN, language="zh"),
        SegmentRequest(samples, origin=ORIGIN, hotwords=(Hotword("a"),)),
        SegmentRequest(samples, origin=ORIGIN, hotwords=(Hotword("a", 2),)),
        SegmentRequest(samples, origin=ORIGIN, words=True),
        SegmentRequest(samples, origin=ORIGIN, itn=True),
        SegmentRequest(samples, origin=ORIGIN, context="before"),
    ]
    assert len(same) == 1
    assert len(same | {asked(other).fingerprint for other in others}) == 1 + len(others)


def test_what_was_heard_arrives_as_python_has_it() -> None:
    words = (HypothesisWord("a", np.int64(1), np.int32(2), np.float32(0.5)),)  # type: ignore[arg-type]
    heard = heard_of(Hypothesis("a", "zh", np.float32(0.25), words, True, "sad", ("applause",)))  # type: ignore[arg-type]
    assert [type(value) for value in (heard.confidence, heard.words[0].start, heard.words[0].confidence)] == [
        float,
        int,
        float,
    ]
    assert hypothesis_of(heard) == Hypothesis(
        "a", "zh", 0.25, (HypothesisWord("a", 1, 2, 0.5),), True, "sad", ("applause",)
    )


@given(st.lists(st.booleans(), max_size=60), st.randoms(use_true_random=False))
def test_a_partition_is_committed_up_to_its_oldest_unanswered_request(comes: list[bool], chance) -> None:  # type: ignore[no-untyped-def]
    ledger, open_now, next_offset = Ledger(0), set[int](), 0
    for come in comes:
        if come or not open_now:
            assert ledger.come(next_offset, float(next_offset))
            open_now.add(next_offset)
            next_offset += chance.choice((1, 1, 5))
        else:
            assert not ledger.come(chance.choice(sorted(open_now)), 0.0), "the log gives it again: it is being answered"
            done = chance.choice(sorted(open_now))
            open_now.remove(done)
            ledger.over(done)
        ledger.check_integrity()
        assert ledger.committable is not None
        assert ledger.committable == min(open_now, default=ledger.next)
        assert ledger.oldest_s == min(map(float, open_now), default=None)


# what is tried alone


async def test_many_are_inside_together_or_one_alone_whom_nobody_passes() -> None:
    isolation, inside, log = Isolation(), Counter[str](), list[str]()

    async def one(name: str, *, alone: bool) -> None:
        async with isolation.alone() if alone else isolation.together():
            inside["alone" if alone else "together"] += 1
            assert inside["alone"] <= 1
            assert not (inside["alone"] and inside["together"])
            log.append(name)
            await asyncio.sleep(0.001)
            inside["alone" if alone else "together"] -= 1

    tasks = [asyncio.ensure_future(one(f"{number}", alone=number % 4 == 2)) for number in range(12)]
    gone = asyncio.ensure_future(one("gone", alone=True))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(*tasks)
    assert sorted(log) == sorted(map(str, range(12)))
    assert log.index("2") < log.index("3")


async def test_an_attempt_that_ends_is_forgotten_and_one_that_is_given_up_was_none() -> None:
    attempts = MemoryAttempts()
    trying = Trying(attempts, "f")
    async with trying.one(S, 1):
        assert attempts.begun == {(S, 1): {"f"}}
    assert not attempts.begun

    async def given_up() -> None:
        async with trying.one(S, 2):
            await asyncio.sleep(60)

    task = asyncio.ensure_future(given_up())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not attempts.begun


async def test_a_segment_that_was_there_when_two_ended_is_tried_alone_and_after_a_third_by_nobody() -> None:
    attempts = MemoryAttempts()
    beside = asyncio.Event()

    async def other(trying: Trying) -> None:
        async with trying.one(S, 0):
            await beside.wait()

    for endings in range(ENDINGS_TOGETHER):
        with pytest.raises(RuntimeError):
            async with Trying(attempts, f"{endings}").one(S, 1):
                raise RuntimeError("the process ends")
        assert attempts.counts[S, 1] == endings + 1
    trying = Trying(attempts, "third")
    company = asyncio.ensure_future(other(trying))
    await asyncio.sleep(0)

    async def third() -> None:
        async with trying.one(S, 1):
            assert company.done()
            raise RuntimeError("the process ends")

    alone = asyncio.ensure_future(third())
    await asyncio.sleep(0.01)
    assert not alone.done()
    assert attempts.counts[S, 1] == ENDINGS_TOGETHER  # to wait is no attempt
    beside.set()
    with pytest.raises(RuntimeError):
        await alone
    with pytest.raises(Quarantined):
        async with Trying(attempts, "fourth").one(S, 1):
            pass


async def test_a_segment_that_waits_to_be_tried_alone_is_not_blamed_for_the_end_of_its_finalizer() -> None:
    attempts = MemoryAttempts()
    attempts.begun[S, 1] = {"1", "2"}
    for name in ("3", "4", "5"):
        trying = Trying(attempts, name)
        company = trying.one(S, 0)
        await company.__aenter__()
        waiting = asyncio.ensure_future(trying.one(S, 1).__aenter__())
        await asyncio.sleep(0.01)
        await kill(waiting, attempts)
    async with Trying(attempts, "6").one(S, 1):
        pass
    assert (S, 1) not in attempts.begun


async def test_once_a_segment_ends_its_finalizer_nothing_else_is_begun_or_blamed() -> None:
    attempts, ends, heard = MemoryAttempts(), asyncio.Event(), list[int]()
    suspects = (1, 2)
    attempts.begun |= {(S, number): {"1", "2"} for number in suspects}
    trying = Trying(attempts, "f")

    async def deadly() -> None:
        async with trying.one(S, 0):
            await ends.wait()
            raise RuntimeError("the process ends")

    async def innocent(number: int) -> None:
        async with trying.one(S, number):
            heard.append(number)

    ending = asyncio.ensure_future(deadly())
    await asyncio.sleep(0)
    waiting = [asyncio.ensure_future(innocent(number)) for number in (*suspects, 3)]  # alone, alone, together
    await asyncio.sleep(0)
    ends.set()
    await asyncio.wait([ending, *waiting])
    later = asyncio.ensure_future(innocent(4))
    await asyncio.wait([later])
    assert all(one.cancelled() for one in (*waiting, later))
    assert not heard
    assert attempts.begun == {(S, 0): {"f"}, (S, 1): {"1", "2"}, (S, 2): {"1", "2"}}


async def test_a_finalizer_at_which_the_store_failed_counts_once_however_often_it_hears_the_segment() -> None:
    class Forgetful(MemoryAttempts):
        async def end(self, session_id: SessionId, segment_id: int) -> None:
            """Nothing is erased."""

        async def take_back(self, session_id: SessionId, segment_id: int, by: str) -> None:
            """Nothing is erased."""

    attempts = Forgetful()
    trying = Trying(attempts, "f")
    for _ in range(9):
        async with trying.one(S, 1):
            pass
    assert attempts.counts[S, 1] == 1


async def kill(task: "asyncio.Task[None]", attempts: MemoryAttempts) -> None:
    """Nothing of it reaches the store any more."""
    before = {key: set(names) for key, names in attempts.begun.items()}
    task.cancel()
    await asyncio.wait([task])
    attempts.begun = before


class Slow(MemoryAttempts):
    """Counts in a moment, and answers in another."""

    async def begin(self, session_id: SessionId, segment_id: int, by: str, *, fewer_than: int) -> int | None:
        await asyncio.sleep(0.01)
        before = await super().begin(session_id, segment_id, by, fewer_than=fewer_than)
        await asyncio.sleep(0.01)
        return before

    async def take_back(self, session_id: SessionId, segment_id: int, by: str) -> None:
        await asyncio.sleep(0.01)
        await super().take_back(session_id, segment_id, by)


@pytest.mark.parametrize("ended", [set(), {"1"}, {"1", "2"}], ids=len)
@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.015, 0.025, 0.035, 0.045, 0.055, 0.07])
async def test_whoever_is_given_up_has_tried_nothing_whenever_that_is(ended: set[str], after_s: float) -> None:
    attempts = Slow()
    if ended:
        attempts.begun[S, 1] = set(ended)

    async def try_it() -> None:
        async with Trying(attempts, "f").one(S, 1):
            await asyncio.sleep(60)

    task = asyncio.ensure_future(try_it())
    await asyncio.sleep(after_s)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert attempts.begun.get((S, 1), set()) == ended


@pytest.mark.parametrize("noted", [False, True])
async def test_who_is_given_up_and_was_not_told_whether_it_is_noted_leaves_nothing(noted: bool) -> None:
    class Unsure(MemoryAttempts):
        async def begin(self, session_id: SessionId, segment_id: int, by: str, *, fewer_than: int) -> int | None:
            await asyncio.sleep(0)
            if noted:
                await super().begin(session_id, segment_id, by, fewer_than=fewer_than)
            return None

    attempts = Unsure()
    attempts.begun[S, 1] = {"1"}
    tried = asyncio.Event()

    async def try_it() -> None:
        async with Trying(attempts, "f").one(S, 1):
            tried.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(try_it())
    await tried.wait()
    task.cancel()
    await asyncio.wait([task])
    assert attempts.begun == {(S, 1): {"1"}}
