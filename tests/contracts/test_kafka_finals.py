"""Finalizers over a real broker: some die, some leave, some requests are strangers', late, or deadly."""

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial

import numpy as np
import pytest
from confluent_kafka import Producer

from streamscribe.bus.kafka import topics
from streamscribe.bus.kafka.finals import answering
from streamscribe.bus.kafka.finals.asking import FILE_STEPS, Finalizers, Patience
from streamscribe.bus.kafka.finals.codec import question
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.batching import Priority
from streamscribe.core.errors import BusUnavailable, ModelUnavailable, Overloaded, Quarantined
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.models.ports import Samples
from streamscribe.settings import KafkaSettings, SettingsError
from streamscribe.wire.final_requests import encode_request
from tests.contracts.finals_rig import PATIENCE, FinalsRig, finals_rig
from tests.contracts.kafka_broker import Broker
from tests.contracts.segment_stage import POLICY, Engine, ask, said_of, segment
from tests.contracts.test_kafka_faults import read_all


@pytest.fixture
async def rig(broker: Broker) -> AsyncIterator[FinalsRig]:
    async with finals_rig(broker.with_topics(finalize_partitions=2)) as running:
        yield running


def closed(deadly: Samples | None = None) -> Engine:
    engine = Engine(deadly)
    engine.gate.clear()
    return engine


async def until(what, patience_s: float = 20) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(patience_s):
        while not what():
            await asyncio.sleep(0.02)


def begun(rig: FinalsRig, attempts: int) -> bool:
    return rig.attempts.counts.total() >= attempts


async def test_what_a_finalizer_had_when_it_was_killed_another_hears(rig: FinalsRig) -> None:
    stuck, well = closed(), Engine()
    first = await rig.start(stuck)
    asked = [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(12)]
    await until(partial(begun, rig, 12))
    await rig.kill(first)
    await rig.start(well)
    assert await asyncio.gather(*asked) == [said_of(segment(number)) for number in range(12)]
    assert (rig.asking.answered, rig.asking.dropped) == (12, 0)
    assert not rig.attempts.counts


async def test_who_dies_between_an_answer_and_its_commit_leaves_it_to_be_dropped_when_it_comes_again(
    rig: FinalsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "COMMIT_INTERVAL_S", 60)
    first = await rig.start(Engine())
    answers = await asyncio.gather(*(ask(rig.asking, segment(number)) for number in range(6)))
    await rig.kill(first)
    again = Engine()
    await rig.start(again)
    await until(lambda: len(again.heard) == 6)
    await until(lambda: rig.asking.dropped == 6)
    assert answers == [said_of(segment(number)) for number in range(6)]
    assert rig.asking.answered == 6


async def test_who_leaves_answers_what_it_has_and_nobody_hears_that_again(rig: FinalsRig) -> None:
    slow, other = closed(), Engine()
    first = await rig.start(slow)
    asked = [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(8)]
    await until(partial(begun, rig, 8))
    leaving = asyncio.ensure_future(rig.stop(first))
    await asyncio.sleep(0.1)
    slow.gate.set()
    await leaving
    await rig.start(other)
    later = segment(20)
    assert await asyncio.gather(*asked, ask(rig.asking, later)) == [said_of(segment(n)) for n in (*range(8), 20)]
    assert (len(slow.heard), len(other.heard), rig.asking.dropped) == (8, 1, 0)


async def test_two_share_the_partitions_and_one_that_comes_takes_over_nothing_twice(rig: FinalsRig) -> None:
    engines = [Engine(), Engine()]
    first = await rig.start(engines[0])
    talking = [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(40)]
    second = await rig.start(engines[1])
    await until(lambda: len(first.partitions) == len(second.partitions) == 1)
    talking += [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(40, 80)]
    assert await asyncio.gather(*talking) == [said_of(segment(number)) for number in range(80)]
    assert all(engine.heard for engine in engines)
    assert (rig.asking.answered, rig.asking.dropped) == (80, 0)


async def test_another_worker_that_asks_the_same_gets_what_was_heard(broker: Broker) -> None:
    kafka = broker.with_topics()
    async with finals_rig(kafka) as rig:
        engine = closed()
        finalizer = await rig.start(engine)
        second = Finalizers(kafka, POLICY, PATIENCE)
        await second.connect()
        dead = asyncio.ensure_future(ask(rig.asking, segment(1)))
        await until(partial(begun, rig, 1))
        dead.cancel()
        alive = asyncio.ensure_future(ask(second, segment(1)))
        await until(lambda: finalizer._inside == 2)
        engine.gate.set()
        assert await alive == said_of(segment(1))
        assert await ask(second, segment(1)) == said_of(segment(1))
        assert (len(engine.heard), finalizer.repeated) == (1, 2)
        await second.disconnect()


async def test_nobody_hears_what_nobody_waits_for_any_more(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "CLOCKS_S", 0)
    async with finals_rig(broker.with_topics(), patience=Patience(live_s=0.3, file_s=30)) as rig:
        with pytest.raises(ModelUnavailable, match="no finalizer has answered in time"):
            await ask(rig.asking, segment(1))
        patient = asyncio.ensure_future(ask(rig.asking, segment(2), priority=Priority.BULK))
        await asyncio.sleep(0.4)
        engine = Engine()
        finalizer = await rig.start(engine)
        assert await patient == said_of(segment(2))
        assert [request.samples.tobytes() for request in engine.heard] == [segment(2).samples.tobytes()]
        assert (finalizer.expired, rig.asking.timed_out) == (1, 1)


async def test_who_can_do_without_is_not_heard_when_that_time_is_over_and_is_heard_when_asked_for_good(
    rig: FinalsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "CLOCKS_S", 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await ask(rig.asking, segment(1, within_s=0.3))
    given_up = asyncio.ensure_future(ask(rig.asking, segment(2, within_s=0.3)))
    for_good = asyncio.ensure_future(ask(rig.asking, segment(3)))
    await asyncio.sleep(0.5)
    engine = Engine()
    finalizer = await rig.start(engine)
    assert await for_good == said_of(segment(3))
    assert await ask(rig.asking, segment(1)) == said_of(segment(1))
    assert finalizer.expired == 2
    assert {request.samples.tobytes() for request in engine.heard} == {segment(n).samples.tobytes() for n in (1, 3)}
    given_up.cancel()


async def test_what_waits_behind_a_busy_step_until_its_time_is_over_is_not_heard(rig: FinalsRig) -> None:
    engine = closed()
    finalizer = await rig.start(engine)
    asked = [asyncio.ensure_future(ask(rig.asking, segment(number, within_s=0.3))) for number in range(12)]
    await until(lambda: finalizer.expired == 12)
    for_good = asyncio.ensure_future(ask(rig.asking, segment(20)))
    engine.gate.set()
    assert await for_good == said_of(segment(20))
    assert len(engine.heard) <= POLICY.max_batch_size + 1
    assert not rig.attempts.counts.total()
    for one in asked:
        one.cancel()


@pytest.mark.parametrize("ahead_s", [-25, 25])
async def test_who_can_do_without_is_heard_though_the_finalizers_clock_is_another(
    rig: FinalsRig, ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "CLOCKS_S", 30)  # however busy this machine is
    await rig.start(Engine(), clock=lambda: time.time() + ahead_s)
    asked = [asyncio.ensure_future(ask(rig.asking, segment(number, within_s=20))) for number in range(5)]
    assert await asyncio.gather(*asked) == [said_of(segment(number)) for number in range(5)]


async def test_a_live_segment_waits_in_the_log_behind_few_of_a_workers_files(rig: FinalsRig) -> None:
    engine = Engine()
    engine.gate.clear()
    await rig.start(engine)
    at_once = FILE_STEPS * POLICY.max_batch_size
    files = [asyncio.ensure_future(ask(rig.asking, segment(n), priority=Priority.BULK)) for n in range(3 * at_once)]
    live = asyncio.ensure_future(ask(rig.asking, segment(999)))
    async with asyncio.timeout(30):
        while rig.asking.inflight <= at_once or not engine.waits:
            await asyncio.sleep(0.01)
    rig.asking.check_integrity()
    engine.gate.set()
    await asyncio.gather(live, *files)
    heard = [np.array_equal(request.samples, segment(999).samples) for request in engine.heard]
    assert heard.index(True) <= at_once
    rig.asking.check_integrity()


async def test_the_oldest_live_segment_that_waits_for_nothing_else_says_how_late_finalizers_are(rig: FinalsRig) -> None:
    now = asyncio.get_running_loop().time
    file = asyncio.ensure_future(ask(rig.asking, segment(1), priority=Priority.BULK))
    without = asyncio.ensure_future(ask(rig.asking, segment(2, within_s=20)))
    await asyncio.sleep(0)
    assert rig.asking.lag_s(now()) == 0
    began = now()
    live = asyncio.ensure_future(ask(rig.asking, segment(3)))
    await asyncio.sleep(0)
    asked = now()
    assert 1 <= rig.asking.lag_s(asked + 1) <= asked + 1 - began
    await rig.start(Engine())
    await asyncio.gather(file, without, live)
    assert rig.asking.lag_s(now()) == 0


@pytest.mark.parametrize(
    ("old", "new", "within_s", "late"),
    [
        ((3, 6, 9), (), None, {"acme", "beta"}),  # of one session each
        ((1, 2), (), None, {"acme"}),
        ((1, 2), range(3, 40), None, {"acme"}),
        ((1, 2), range(3, 41), None, set()),  # a twentieth
        ((1, 2), range(3, 41), 20, set()),
        ((), (1, 2), None, set()),
    ],
)
async def test_who_is_late_goes_by_how_long_live_segments_have_waited_that_have_no_other_text(
    rig: FinalsRig, old: Sequence[int], new: Sequence[int], within_s: float | None, late: set[str]
) -> None:
    now = asyncio.get_running_loop().time
    of_acme, of_beta = (partial(segment, tenant_id=TenantId(one)) for one in ("acme", "beta"))
    waiting = [asyncio.ensure_future(ask(rig.asking, of_acme(number))) for number in old]
    waiting += [asyncio.ensure_future(ask(rig.asking, of_beta(number))) for number in (3, 6)]
    await asyncio.sleep(0.01)
    between = now()
    await asyncio.sleep(0.01)
    waiting += [asyncio.ensure_future(ask(rig.asking, of_acme(number, within_s=within_s))) for number in new]
    waiting += [asyncio.ensure_future(ask(rig.asking, segment(n, tenant_id=TenantId("new")))) for n in range(50)]
    await asyncio.sleep(0.01)
    asked = now()
    assert rig.asking.late(asked, asked - between) == late
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    assert not rig.asking.late(now(), 0)


async def test_a_segment_that_ends_three_finalizers_is_given_up_and_named_and_all_others_are_heard(
    rig: FinalsRig,
) -> None:
    deadly = asyncio.ensure_future(ask(rig.asking, segment(0)))
    others = [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in (3, 6, 9)]  # of one session
    for attempt in (
        1,
        2,
        3,
    ):  # each ends while it hears it: who is to try it alone counts it, and takes that back before
        engine = closed(segment(0).samples)
        victim = await rig.start(engine)
        await until(lambda engine=engine: engine.waits)  # type: ignore[misc]
        assert rig.attempts.counts[SessionId("session-0"), 0] == attempt
        await rig.kill(victim)
    last = await rig.start(Engine())
    with pytest.raises(Quarantined):
        await deadly
    assert await asyncio.gather(*others) == [said_of(segment(number)) for number in (3, 6, 9)]
    assert last.dead_letters == 1
    letters = await asyncio.to_thread(read_all, rig.kafka, Topics.of(rig.kafka).dead_letter, 0)
    letter = json.loads(letters[0].value())
    assert (letter["session_id"], letter["topic"]) == ("session-0", Topics.of(rig.kafka).finalize)
    assert "stopped its finalizers" in letter["reason"]


async def test_what_nobody_can_read_is_named_and_holds_up_nobody(rig: FinalsRig) -> None:
    finalizer = await rig.start(Engine())
    stranger = Producer({"bootstrap.servers": rig.kafka.brokers, "log_level": 0})
    asked = question(
        segment(1), priority=Priority.URGENT, share=Share(), asked_by="x", number=0, reply_to=0, patience_ms=10_000
    )
    of_another = encode_request(asked)
    nowhere = (dataclasses.replace(asked, reply_to=at) for at in (-(2**40), -2, -1, rig.kafka.audio_partitions, 2**40))
    unreadable = [(b"s", b"what somebody said"), (b"other", of_another), (b"s", b"")]
    unreadable += [(b"session-1", encode_request(one)) for one in nowhere]
    for key, value in unreadable:
        stranger.produce(Topics.of(rig.kafka).finalize, value, key)
    for reply_to in range(rig.kafka.audio_partitions):
        stranger.produce(Topics.of(rig.kafka).finals, b"what somebody heard", b"s", partition=reply_to)
    await asyncio.to_thread(stranger.flush, 10)
    assert await ask(rig.asking, segment(2)) == said_of(segment(2))
    await until(lambda: finalizer.dead_letters == len(unreadable))
    letters = await asyncio.to_thread(read_all, rig.kafka, Topics.of(rig.kafka).dead_letter, 0, len(unreadable) + 1)
    assert len(letters) == len(unreadable) + 1  # one answer was for the partition that this worker reads
    assert not [letter for letter in letters if b"somebody" in letter.value()]


async def test_a_finalizer_reads_no_more_than_it_may_hold(rig: FinalsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "MAX_INSIDE", 8)
    engine = closed()
    finalizer = await rig.start(engine)
    asked = [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(8)]
    await until(partial(begun, rig, 8))
    await asyncio.sleep(0.3)
    asked += [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(8, 48)]
    await asyncio.sleep(1)
    assert finalizer._inside <= 8 + 2
    await until(lambda: finalizer.waiting > finalizer._inside)
    engine.gate.set()
    assert await asyncio.gather(*asked) == [said_of(segment(number)) for number in range(48)]
    await until(lambda: finalizer.waiting == 0)
    assert finalizer.oldest_s == 0


async def test_drafts_are_refused_at_once(rig: FinalsRig) -> None:
    with pytest.raises(Overloaded):
        await ask(rig.asking, segment(1, draft=True))
    assert rig.asking.inflight == 0


async def test_a_finalizer_whose_model_has_stopped_leaves_its_requests_to_others(rig: FinalsRig) -> None:
    stuck = closed()
    broken = await rig.start(stuck)
    asked = asyncio.ensure_future(ask(rig.asking, segment(1)))
    await until(lambda: bool(rig.attempts.counts))
    recognition, _ = rig.running[broken]
    recognition.parts[0]._stop("the model has stopped")  # type: ignore[attr-defined]
    stuck.gate.set()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # it says why it stopped
    second = asyncio.ensure_future(ask(rig.asking, segment(2)))
    assert isinstance(await broken.failed(), ModelUnavailable)
    await rig.stop(broken)
    await rig.start(Engine())
    assert await asyncio.gather(asked, second) == [said_of(segment(1)), said_of(segment(2))]


async def test_while_the_broker_is_frozen_requests_wait_and_then_go_on(rig: FinalsRig, broker: Broker) -> None:
    await rig.start(Engine())
    assert await ask(rig.asking, segment(1)) == said_of(segment(1))
    with broker.frozen():
        asked = [asyncio.ensure_future(ask(rig.asking, segment(number))) for number in range(2, 8)]
        await asyncio.sleep(1)
        assert not any(one.done() for one in asked)
    assert await asyncio.gather(*asked) == [said_of(segment(number)) for number in range(2, 8)]


async def test_without_a_broker_or_topics_nothing_starts(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "PATIENCE_S", 0.5)
    nobody = Finalizers(KafkaSettings(brokers="127.0.0.1:1"), POLICY, PATIENCE)
    with pytest.raises(BusUnavailable):
        await nobody.connect()
    with pytest.raises(SettingsError, match="streamscribe topics ensure"):
        await Finalizers(broker.settings(), POLICY, PATIENCE).connect()
