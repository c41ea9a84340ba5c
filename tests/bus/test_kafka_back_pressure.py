"""What the worker's end of Kafka holds for sessions that wait, and when it stops reading."""

import asyncio

import pytest

from streamscribe.bus.kafka import partition
from tests.bus.kafka_site import A, Site, Wayward, away, virtually
from tests.contracts.takeover import Listener, session


def test_suspects_of_which_more_waits_than_a_partition_may_hold_are_tried_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MAX_UNSETTLED_RECORDS", 50)
    monkeypatch.setattr(partition, "MAX_HELD_RECORDS", 50)

    async def play(site: Site) -> None:
        names = [f"s{number}" for number in range(6)]
        for records in zip(*(list(session(name, 60))[:40] for name in names), strict=True):
            site.publish(*records)
        for _ in range(2):
            bus = site.worker()
            Listener(bus, every=100, stop_at=5)
            await asyncio.sleep(5)
            await site.crash(bus)
        bus = site.worker()
        Listener(bus, every=100)
        await asyncio.sleep(20)
        assert {held.lease.ends.count for held in bus.sessions if held.lease is not None} == {0}, "all are cleared"
        for name in names:
            site.publish(*list(session(name, 60))[40:])
        await asyncio.sleep(10)
        assert site.finished() == set(names)
        assert not any(part.paused for part in bus._partitions.values())

    virtually(play)


def test_while_the_store_is_away_sessions_that_wait_for_it_do_not_stop_those_that_are_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MAX_UNSETTLED_RECORDS", 20)

    async def play(site: Site) -> None:
        site.store = Wayward(site.memory)
        site.publish(*list(session("a", 9))[:5])
        Listener(site.worker())
        await asyncio.sleep(3)
        site.store.answers = dict.fromkeys(("claim", "renew", "save", "note", "abandon"), away)
        names = [f"s{number}" for number in range(6)]
        for name in names:
            site.publish(*session(name, 20))
        await asyncio.sleep(5)
        site.publish(*list(session("a", 9))[5:])
        await asyncio.sleep(5)
        assert site.finished() == {A}
        site.store.answers = {}
        await asyncio.sleep(20)
        assert site.finished() == {A, *names}

    virtually(play)


def test_what_waits_for_the_store_is_bounded_and_read_on_once_the_store_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MAX_HELD_RECORDS", 100)

    async def play(site: Site) -> None:
        site.store = Wayward(site.memory, claim=away)
        bus = site.worker()
        Listener(bus)
        await asyncio.sleep(3)
        names = [f"s{number}" for number in range(20)]
        for name in names:
            site.publish(*session(name, 20))
        await asyncio.sleep(5)
        (read,) = bus._partitions.values()
        assert read.paused
        assert read.held_records < 100 + 30, "what a batch brings comes to it"
        site.store.answers = {}
        await asyncio.sleep(20)
        assert site.finished() == set(names)

    virtually(play)


def test_a_partition_that_comes_back_is_read_though_it_was_paused_for_what_it_had_before() -> None:
    async def play(site: Site) -> None:
        bus = site.worker()
        Listener(bus)
        await asyncio.sleep(1)
        bus._membership.pause(0)  # records come for a while after it was lost, before the loop knows
        bus._lost([0])
        bus._assigned([0])
        site.publish(*session("a", 9))
        await asyncio.sleep(5)
        assert site.finished() == {A}

    virtually(play)
