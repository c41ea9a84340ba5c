"""What lies or is held where it does not belong: records in another session's partition, leases of strangers."""

import asyncio
from typing import Any

import pytest

from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.core.ids import SessionId
from tests.bus import kafka_site
from tests.bus.kafka_site import CLUSTER, LEASE_S, A, B, Site, Wayward, away, virtually
from tests.contracts.takeover import Listener, session


def test_records_that_lie_in_another_partition_than_their_sessions_are_buried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has that partition would take the session's lease, and keep its owner waiting for good."""
    monkeypatch.setattr(kafka_site, "KAFKA", CLUSTER)
    by_partition = {partition_of(name, CLUSTER.audio_partitions): name for name in map(str, range(100))}
    here, stray = by_partition[0], by_partition[1]

    async def play(site: Site) -> None:
        strays = [*session(stray, 5)]
        site.publish(*strays, *session(here, 5))
        bus = site.worker()
        Listener(bus)
        await asyncio.sleep(5)
        assert site.finished() == {SessionId(here)}
        assert bus.dead_letters == len(strays)
        await site.memory.claim(SessionId(stray), "its owner")

    virtually(play)


@pytest.mark.parametrize("comes", ["while it is another's", "later"])
def test_a_session_whose_lease_went_to_one_that_has_not_its_partition_goes_on_once_that_lets_it_go(comes: str) -> None:
    """Nobody else would: the partition stays where it is."""

    async def play(site: Site) -> None:
        records = [*session("a", 20)], [*session("b", 20)]
        site.store = Wayward(site.memory)
        for each in records:
            site.publish(*each[:8])
        bus = site.worker()
        Listener(bus)
        await asyncio.sleep(3)
        site.store.answers = dict.fromkeys(("claim", "renew", "save", "note", "abandon"), away)
        await asyncio.sleep(LEASE_S + 0.5)
        strangers = await site.memory.claim(A, "a stranger")
        site.store.answers = {}
        await asyncio.sleep(1)
        assert bus.lost == 1
        if comes != "later":
            for each in records:
                site.publish(*each[8:])
        for _ in range(8):
            renewed = await site.memory.renew([strangers])
            assert None not in renewed
            await asyncio.sleep(1)
        assert A not in site.finished()
        await site.memory.release(strangers)
        await asyncio.sleep(8)
        if comes == "later":
            for each in records:
                site.publish(*each[8:])
        await asyncio.sleep(8)
        assert site.finished() == {A, B}
        assert site.failures() == {}

    virtually(play)


def test_a_partition_of_which_another_had_many_sessions_at_once_is_begun_again_once_and_says_so() -> None:
    async def play(site: Site) -> None:
        names = [f"s{number}" for number in range(20)]
        site.store = Wayward(site.memory)
        for name in names:
            site.publish(*list(session(name, 20))[:8])
        bus = site.worker()
        told: list[str] = []
        bus.on_partitions = lambda what, numbers: told.extend([what] * bool(numbers))
        begin_again = bus._membership.begin_again

        def in_the_consumers_next_turn(number: int, let_go: Any) -> None:
            asked.append(number)
            asyncio.get_running_loop().call_later(0.1, begin_again, number, let_go)

        asked: list[int] = []
        bus._membership.begin_again = in_the_consumers_next_turn  # type: ignore[method-assign]
        Listener(bus)
        await asyncio.sleep(3)
        site.store.answers = dict.fromkeys(("claim", "renew", "save", "note", "abandon"), away)
        await asyncio.sleep(LEASE_S + 0.5)
        for name in names:
            await site.memory.release(await site.memory.claim(SessionId(name), "a stranger"))
        site.store.answers = {}
        await asyncio.sleep(10)
        assert bus.lost == len(names)
        assert (asked, told) == ([0], ["assigned", "begun_again", "assigned"])
        for name in names:
            site.publish(*list(session(name, 20))[8:])
        await asyncio.sleep(8)
        assert site.finished() == set(names)

    virtually(play)
