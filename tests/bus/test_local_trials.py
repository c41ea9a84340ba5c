"""Whose fault it is where worker processes end: who is guilty is found within few ends, and nobody else is blamed."""

import asyncio
from collections.abc import Sequence

import pytest

from streamscribe.bus.local import member as members
from streamscribe.bus.local import trials
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import Quarantined
from streamscribe.core.ids import SessionId
from streamscribe.core.quarantine import MOST_ENDS
from streamscribe.core.records import Failed
from tests.bus.local_rig import Rig, a_rig
from tests.contracts.bus import chunk, let_others_run
from tests.contracts.takeover import CHUNK, Listener

A, B = SessionId("a"), SessionId("b")


def quarantined(rig: Rig) -> list[object]:
    return [told[1] for told in rig.watch.told if told[0] == "quarantined"]


def had_all(worker: Listener, name: str, last: int) -> bool:
    """Whether it has settled that record of the session, so far as it told."""
    heard = worker.heard.get(SessionId(name))
    return bool(heard) and heard[-1].index == last


async def lives(rig: Rig, count: int, names: Sequence[str], last: int, deadly: str) -> None:
    """So many workers that end once they have settled all of `deadly`, or as many as it takes until one is blamed."""
    for number in range(1, count + 1):
        rig.chosen = number
        worker = Listener(LocalWorkerBus(await rig.join(number)), every=1000)
        if number == 1:
            for name in names:
                await rig.publish(name, 0, last)
        while not had_all(worker, deadly, last):
            await asyncio.sleep(0)
        await let_others_run()
        rig.chosen = None
        await rig.kill(number)
        rig.gateway.check_integrity()
        if quarantined(rig):
            return


async def test_a_session_that_stops_two_workers_at_one_record_fails_and_the_others_go_on() -> None:
    async with a_rig() as rig:
        for member in (1, 2):
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), every=2, stop_at=5)
            if member == 1:
                await rig.publish("b", 0, 4)
                await rig.publish("a", 0, 7)
            await worker.stopped.wait()
            rig.chosen = None
            await rig.kill(member)
        failed = rig.ear.items[-1]
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, Quarantined)
        assert failed.session_id == A
        assert rig.watch.told[-2:] == [("quarantined", A, 5), ("over", A)]
        await rig.gateway.publish(chunk("a", 8, CHUNK))
        rig.chosen = 3
        last = Listener(LocalWorkerBus(await rig.join(3)))
        await rig.publish("b", 5, 6)
        while 6 not in rig.ear.progress("b"):
            await rig.ear.wait_for(len(rig.ear.items) + 1)
        assert A not in last.heard


async def test_of_several_sessions_at_whose_records_two_workers_ended_each_is_tried_alone() -> None:
    async with a_rig() as rig:
        for member in (1, 2, 3):
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), every=100, stop_at=5)
            if member == 1:
                for index in range(6):
                    await rig.publish("a", index, index)
                    await rig.publish("b", index, index)
            await worker.stopped.wait()
            await let_others_run()
            rig.chosen = None
            await rig.kill(member)
            rig.gateway.check_integrity()
        assert B not in worker.heard  # it waited for its trial
        assert [told for told in rig.watch.told if told[0] == "quarantined"] == [("quarantined", A, 5)]
        rig.chosen = 4
        last = Listener(LocalWorkerBus(await rig.join(4)))
        await rig.publish("b", 6, 7)
        while 7 not in rig.ear.progress("b"):
            await rig.ear.wait_for(len(rig.ear.items) + 1)
        assert A not in last.heard


@pytest.mark.parametrize(("stops", "suspect"), [((5, 6), True), ((5, 5), False), ((0, 0), True)])
async def test_a_session_is_not_blamed_for_workers_that_end_elsewhere_or_were_sent_away_or_had_not_begun(
    stops: tuple[int, int], suspect: bool
) -> None:
    async with a_rig() as rig:
        for member, stop_at in enumerate(stops, 1):
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), stop_at=stop_at)
            if member == 1:
                await rig.publish("a", 0, 7)
            await worker.stopped.wait()
            rig.chosen = None
            await rig.kill(member, suspect=suspect)
        rig.chosen = 3
        last = Listener(LocalWorkerBus(await rig.join(3)))
        while 7 not in rig.ear.progress("a"):
            await rig.ear.wait_for(len(rig.ear.items) + 1)
        assert last.heard[A][-1].index == 7


async def test_law_3_a_lone_session_whose_workers_end_at_ever_other_records_is_not_blamed() -> None:
    async with a_rig() as rig:
        for member, stop_at in enumerate((40, 90, 150), 1):
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), every=1000, stop_at=stop_at)
            if member == 1:
                await rig.publish("a", 0, 160)
            await worker.stopped.wait()
            rig.chosen = None
            await rig.kill(member)
            rig.gateway.check_integrity()
        rig.chosen = 4
        Listener(LocalWorkerBus(await rig.join(4)))
        while 160 not in rig.ear.progress("a"):
            await rig.ear.wait_for(len(rig.ear.items) + 1)
        assert not quarantined(rig)


async def test_a_lone_session_that_ends_workers_at_ever_other_records_is_found_all_the_same() -> None:
    async with a_rig() as rig:
        for member in range(1, MOST_ENDS + 1):
            assert not quarantined(rig)
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), every=1000, stop_at=4 + member)
            if member == 1:
                await rig.publish("a", 0, 60)
            await worker.stopped.wait()
            rig.chosen = None
            await rig.kill(member)
        assert quarantined(rig) == [A]


@pytest.mark.parametrize("deadly", ["a", "c", "e"])
async def test_who_ends_workers_in_a_step_for_what_was_settled_is_found_among_all_who_were_there(
    deadly: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "abcde"
    monkeypatch.setattr(trials, "HOLD_S", 0.2)
    async with a_rig() as rig:
        await lives(rig, 40, names, 5, deadly)
        assert quarantined(rig) == [deadly]
        rig.chosen = 99
        Listener(LocalWorkerBus(await rig.join(99)))
        for name in set(names) - {deadly}:
            await rig.publish(name, 6, 7)
        while not all(7 in rig.ear.progress(name) for name in set(names) - {deadly}):
            await rig.ear.wait_for(len(rig.ear.items) + 1)


async def test_who_has_had_nothing_for_longer_than_a_step_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "STEP_S", 0.0)
    async with a_rig() as rig:
        await lives(rig, MOST_ENDS + 2, "a", 5, "a")
        assert not quarantined(rig)
        assert rig.gateway.homeless == 1


async def test_suspects_at_whose_trial_nothing_happens_are_cleared_and_the_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "HOLD_S", 0.0)
    async with a_rig() as rig:
        for member in (1, 2, 3):
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), every=1000)
            if member == 1:
                for name in "abc":
                    await rig.publish(name, 0, 5)
            while not all(had_all(worker, name, 5) for name in "abc"):
                await asyncio.sleep(0)
            await let_others_run()
            rig.chosen = None
            await rig.kill(member)
        rig.chosen = 4
        last = Listener(LocalWorkerBus(await rig.join(4)), every=1000)
        while not all(had_all(last, name, 5) for name in "abc"):
            await asyncio.sleep(0)
        assert rig.gateway.homeless == 0
        for member in range(5, 5 + MOST_ENDS - 1):  # what was before their trial counts no more
            await let_others_run()
            rig.chosen = None
            await rig.kill(member - 1)
            rig.chosen = member
            last = Listener(LocalWorkerBus(await rig.join(member)), every=1000)
            while not had_all(last, "a", 5):
                await asyncio.sleep(0)
        assert not quarantined(rig)
