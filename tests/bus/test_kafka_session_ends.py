"""Who may mark a session's end in the log, which whoever reads it obeys; and which ends of workers count."""

import asyncio
import json
from typing import Any

import pytest

from streamscribe.core.errors import LeaseLost, StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.lease import Lease
from streamscribe.core.records import SessionAbandoned
from streamscribe.wire.bus_records import decode_record
from tests.bus.kafka_site import LEASE_S, TOPICS, A, B, Site, Wayward, away, virtually
from tests.contracts.takeover import Listener, session


def marked(site: Site) -> set[SessionId]:
    """The sessions whose end is in the log."""
    records = [decode_record(one.value()) for one in site.broker.read(TOPICS.audio, 0, 0, 100_000) if one.value()]
    return {one.session_id for one in records if isinstance(one, SessionAbandoned)}


def test_the_end_of_a_session_is_marked_by_who_had_it_to_its_end() -> None:
    async def play(site: Site) -> None:
        site.publish(*session("a", 4))
        Listener(site.worker())
        await asyncio.sleep(5)
        assert site.finished() == {A}
        assert marked(site) == {A}

    virtually(play)


async def another_has_it(lease: Lease) -> None:
    raise LeaseLost


@pytest.mark.parametrize("forget", [another_has_it, away], ids=["another's", "not known"])
def test_who_cannot_say_that_a_session_is_its_own_to_end_marks_no_end_of_it(forget: Any) -> None:
    """As a worker that was frozen past its lease: what it tells then no gateway takes, and the next one goes on."""

    async def play(site: Site) -> None:
        site.store = Wayward(site.memory, forget=forget)
        site.publish(*session("a", 4))
        Listener(site.worker())
        await asyncio.sleep(5)
        assert site.finished() == {A}
        assert marked(site) == set()

    virtually(play)


def test_a_worker_that_meets_a_defect_before_it_has_the_lease_marks_no_end_of_the_session() -> None:
    async def play(site: Site) -> None:
        async def claim(session_id: SessionId, owner: str) -> Lease:
            if session_id == A:
                raise RuntimeError("a defect")
            return await site.memory.claim(session_id, owner)

        site.store = Wayward(site.memory, claim=claim)
        site.publish(*session("a", 4), *session("b", 4))
        Listener(site.worker())
        await asyncio.sleep(5)
        assert site.failures() == {"a": "internal"}
        assert site.finished() == {B}
        assert marked(site) == {B}

    virtually(play)


def test_a_worker_that_leaves_while_the_store_fails_now_and_then_counts_not_as_ended() -> None:
    async def play(site: Site) -> None:
        failures = iter([True, True, False])

        async def release(lease: Lease) -> None:
            if next(failures, False):
                raise StoreUnavailable
            await site.memory.release(lease)

        site.store = Wayward(site.memory, release=release)
        site.publish(*list(session("a", 9))[:5])
        bus = site.worker()
        Listener(bus)
        await asyncio.sleep(3)
        await bus.close()
        site.workers.remove(bus)
        assert (await site.memory.claim(A, "the next worker")).ends.count == 0

    virtually(play)


@pytest.mark.parametrize(("at", "offset"), [(2, 2), (9, None)], ids=["known", "not-read"])
def test_a_quarantine_names_the_record_in_the_log_where_it_has_come_and_else_none(at: int, offset: int | None) -> None:
    async def play(site: Site) -> None:
        for owner in ("w1", "w2"):
            await site.memory.note(await site.memory.claim(A, owner), at)
            await asyncio.sleep(LEASE_S + 1)
        site.publish(*list(session("a", 20))[:6])
        Listener(site.worker())
        await asyncio.sleep(5)
        assert site.quarantined == [(A, "t", at)]
        (letter,) = site.broker.read(TOPICS.dead_letter, 0, 0, 100)
        assert json.loads(letter.value())["offset"] == offset

    virtually(play)
