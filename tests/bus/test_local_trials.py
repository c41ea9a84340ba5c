"""Whose fault it is where worker processes end: who is guilty is found within few ends, and nobody else is blamed."""

import pytest

from streamscribe.bus.local.trials import MOST_ENDS
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import Quarantined
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Failed
from tests.bus.local_rig import Rig, a_rig
from tests.contracts.bus import chunk, let_others_run
from tests.contracts.takeover import CHUNK, Listener

A, B = SessionId("a"), SessionId("b")


def quarantined(rig: Rig) -> list[object]:
    return [told[1] for told in rig.watch.told if told[0] == "quarantined"]


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


@pytest.mark.parametrize(
    ("kills", "blamed"),
    [((True, True), False), ((True, True, True), True), ((True, False), True), ((False, True), False)],
    ids=["killed", "killed on trial too", "ended then", "killed then"],
)
async def test_a_record_at_which_workers_are_killed_from_outside_is_tried_first(
    kills: tuple[bool, ...], *, blamed: bool
) -> None:
    async with a_rig() as rig:
        for member, killed in enumerate(kills, 1):
            assert not quarantined(rig)
            rig.chosen = member
            worker = Listener(LocalWorkerBus(await rig.join(member)), every=100, stop_at=5)
            if member == 1:
                await rig.publish("a", 0, 7)
            await worker.stopped.wait()
            rig.chosen = None
            await rig.kill(member, killed=killed)
        assert quarantined(rig) == [A] * blamed
        if not blamed:
            rig.chosen = 9
            Listener(LocalWorkerBus(await rig.join(9)))
            while 7 not in rig.ear.progress("a"):
                await rig.ear.wait_for(len(rig.ear.items) + 1)


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
