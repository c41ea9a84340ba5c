"""The gateway's end where workers misbehave, stop, or are sent away: what the contract suites leave open."""

import asyncio

import pytest

from streamscribe.bus.local import replay
from streamscribe.bus.local.frames import Work, settle_payload, work_payload
from streamscribe.bus.local.link import HIGH_WATER_BYTES, Kind
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import BadRequest, Draining, RateExceeded
from streamscribe.core.ids import SessionId
from streamscribe.core.records import (
    Checkpointed,
    Failed,
    Finished,
    Progress,
    SessionAbandoned,
    WorkerEvent,
)
from streamscribe.wire.bus_records import encode_event, encode_record
from tests.bus.local_rig import Rig, a_rig
from tests.contracts.bus import Inbox, let_others_run, opened
from tests.contracts.takeover import CHUNK, Listener, checkpoint, session

A, B = SessionId("a"), SessionId("b")


async def test_law_2_what_a_worker_says_after_it_lost_its_sessions_is_dropped_and_counted() -> None:
    async with a_rig() as rig:
        old = Listener(LocalWorkerBus(await rig.join(1)), stop_at=3)
        new = Listener(LocalWorkerBus(await rig.join(2)))
        await rig.publish("a", 0, 5)
        await old.stopped.wait()
        rig.chosen = 2
        rig.gateway.leave(1)
        told = len(rig.ear.items)
        old.bus.emit(Progress(A, 99))
        old.bus.emit(Checkpointed(A, checkpoint(6)))
        old.bus.settle(A, len(CHUNK))
        old.bus.emit(Finished(A, 1))
        while rig.watch.told.count(("fenced",)) < 3:
            await asyncio.sleep(0)
        await rig.ear.wait_for(told + 6)
        assert 99 not in rig.ear.progress("a")
        assert not any(isinstance(event, Finished) for event in rig.ear.items)
        assert [record.index for record in new.heard[A]] == [0, 1, 2, 3, 4, 5]
        assert ("taken over", A) in rig.watch.told


async def test_a_worker_that_is_sent_away_alive_is_told_that_its_sessions_are_anothers() -> None:
    async with a_rig() as rig:
        LocalWorkerBus(await rig.join(1)).attach_worker(inbox := Inbox())
        await rig.publish("a", 0, 1)
        await inbox.wait_for(2)
        rig.chosen = None
        rig.gateway.leave(1)
        assert isinstance((await inbox.wait_for(3))[2], SessionAbandoned)
        rig.gateway.leave(1)
        assert rig.gateway.homeless == 1


async def test_a_session_waits_for_a_member_where_none_is_chosen_or_the_chosen_is_not_there() -> None:
    async with a_rig() as rig:
        for chosen in (None, 7):
            rig.chosen = chosen
            await rig.publish("a" if chosen else "b", 0, 2)
        assert rig.gateway.homeless == 2
        rig.chosen = 1
        worker = Listener(LocalWorkerBus(await rig.join(1)))
        await rig.ear.wait_for(6)
        assert rig.gateway.homeless == 0
        assert [record.index for record in worker.heard[A]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Kind.EVENT, b"no event"),
        (Kind.EVENT, encode_record(opened("a"))),
        (Kind.EVENT, encode_event(Checkpointed(A, checkpoint(9)))),
        (Kind.SETTLE, b"\x00"),
        (Kind.SETTLE, b"\x00\x00\x00\x00/"),
        (Kind.SETTLE, settle_payload(A, 2**31)),
        (Kind.WORK, b""),
        (Kind.WORK, b"\x03a"),
        (Kind.WORK, b"\x01/"),
        (Kind.RECORD, encode_record(opened("a"))),
    ],
)
async def test_a_worker_that_says_what_cannot_be_loses_its_link_and_its_sessions_go_on(
    kind: Kind, payload: bytes
) -> None:
    async with a_rig() as rig:
        there = await rig.join(1)
        LocalWorkerBus(there).attach_worker(inbox := Inbox())
        await rig.publish("a", 0, 2)
        await inbox.wait_for(3)
        there.send(kind, payload)
        assert isinstance(await rig.here[1].closed, BadRequest)
        rig.chosen = 2
        rig.gateway.leave(1)
        next_worker = Listener(LocalWorkerBus(await rig.join(2)))
        await rig.ear.wait_for(3)
        assert [record.index for record in next_worker.heard[A]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (Kind.RECORD, b"no record"),
        (Kind.EVENT, encode_event(Progress(A, 1))),
        (Kind.SETTLE, settle_payload(A, 0)),
        (Kind.WORK, work_payload(A, Work.SOME)),
    ],
)
async def test_a_worker_closes_its_link_at_what_no_gateway_says(kind: Kind, payload: bytes) -> None:
    async with a_rig() as rig:
        there = await rig.join(1)
        LocalWorkerBus(there).attach_worker(Inbox())
        rig.here[1].send(kind, payload)
        assert isinstance(await there.closed, BadRequest)


async def test_a_worker_that_stopped_reading_costs_the_gateway_no_memory_and_the_others_no_time() -> None:
    async with a_rig() as rig:
        await rig.join(1)  # whose records nobody takes
        rig.chosen = 2
        Listener(LocalWorkerBus(await rig.join(2)))
        for record in session("b", 3):
            await rig.gateway.publish(record)
        rig.chosen = 1
        for name in ("c", "d"):
            await rig.publish(name, 0, 280)
        assert rig.here[1].unsent_bytes <= HIGH_WATER_BYTES + 2 * len(CHUNK)
        await rig.ear.finished("b")
        await rig.gateway.publish(SessionAbandoned(SessionId("c"), 281))
        rig.chosen = 2
        rig.gateway.leave(1)
        await rig.publish("d", 281, 282)
        while 282 not in rig.ear.progress("d"):
            await rig.ear.wait_for(len(rig.ear.items) + 1)
        assert rig.ear.progress("d") == set(range(283))
        assert rig.ear.progress("c") == set()


async def test_sessions_of_a_busy_link_take_turns() -> None:
    async with a_rig() as rig:
        rig.chosen = None
        for name in ("a", "b"):
            await rig.publish(name, 0, 40)
        rig.chosen = 1
        LocalWorkerBus(await rig.join(1)).attach_worker(inbox := Inbox())
        items = await inbox.wait_for(82)
        assert [record.session_id for record in items] == ["a", "b"] * 41


async def test_audio_without_a_checkpoint_fills_the_replay_and_one_makes_room_for_who_waits() -> None:
    async with a_rig(max_replay_s=40) as rig:
        listener = Listener(LocalWorkerBus(await rig.join(1)), every=1000)
        await rig.publish("a", 0, 400)
        while len(listener.heard[A]) < 401:
            await asyncio.sleep(0)
        await rig.ear.wait_for(401)
        assert not rig.gateway.room(A, len(CHUNK))
        waiting = [asyncio.ensure_future(rig.publish("a", 401, 402)), asyncio.ensure_future(rig.publish("b", 0, 1))]
        await waiting[1]
        assert not waiting[0].done()
        listener.bus.emit(Checkpointed(A, checkpoint(3)))
        await waiting[0]
        while len(listener.heard[A]) < 403:
            await asyncio.sleep(0)
        await let_others_run()
        assert not rig.gateway.room(A, len(CHUNK))


async def test_a_session_of_more_records_than_are_kept_fails_also_where_its_publishers_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay, "MAX_KEPT_RECORDS", 20)
    async with a_rig(max_backlog_s=0.5) as rig:
        worker = LocalWorkerBus(await rig.join(1))
        worker.attach_worker(inbox := Inbox())
        waiting = [asyncio.ensure_future(rig.publish("a", 0, 0))]
        waiting += [asyncio.ensure_future(rig.publish("a", index, index)) for index in range(1, 30)]
        await let_others_run()
        assert not waiting[20].done()
        for index in range(21):
            await inbox.wait_for(index + 1)
            worker.settle(A, len(CHUNK) if index else 0)
        await asyncio.gather(*waiting)
        assert isinstance((await inbox.wait_for(22))[21], SessionAbandoned)
        (failed,) = rig.ear.items
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, RateExceeded)
        assert rig.here[1].writable


async def test_the_observer_is_told_once_of_each_session_that_is_over() -> None:
    async with a_rig() as rig:
        Listener(LocalWorkerBus(await rig.join(1)))
        for record in session("a", 2):
            await rig.gateway.publish(record)
        await rig.ear.finished("a")
        await rig.publish("b", 0, 1)
        await rig.gateway.publish(SessionAbandoned(B, 2))
        await rig.gateway.publish(SessionAbandoned(B, 2))
        await rig.publish("c", 0, 1)
        await rig.gateway.close()
        assert rig.watch.told == [("over", A), ("over", B), ("over", SessionId("c"))]
        with pytest.raises(Draining):
            await rig.publish("d", 0, 0)


async def test_a_gateway_that_fails_to_take_an_event_does_not_cost_the_worker_its_link() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    heard: list[WorkerEvent] = []

    def broken(event: WorkerEvent) -> None:
        heard.append(event)
        raise KeyError("a defect")

    async with a_rig() as rig:
        rig.gateway.attach_gateway(broken)
        Listener(LocalWorkerBus(await rig.join(1)))
        await rig.publish("a", 0, 2)
        while len(heard) < 3:
            await asyncio.sleep(0)
        assert rig.here[1].writable
    assert isinstance(reported[0]["exception"], KeyError)


async def test_a_replay_that_could_not_hold_a_segment_and_a_member_that_is_here_already_are_refused() -> None:
    with pytest.raises(ValueError, match="max_replay_s must be at least 40"):
        Rig(max_replay_s=39)
    async with a_rig() as rig:
        there = await rig.join(1)
        with pytest.raises(ValueError, match="member 1"):
            rig.gateway.join(1, there)
