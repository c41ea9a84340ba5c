"""A gateway that stood still while its session moved on may say something late. No worker may take that for true.

A worker that begins behind the announcement of the gateway that has the session may read what is late first.
"""

import asyncio

import pytest

from streamscribe.core.records import Record, SessionAbandoned
from streamscribe.ports import Place, Ticket
from tests.bus.kafka_site import TOPICS, A, Site, virtually
from tests.contracts.bus import chunk, opened
from tests.contracts.takeover import CHUNK, Listener, assert_goes_on, checkpoint, session

RECORDS = list(session("a", 20))
LATE: dict[str, list[Record]] = {
    "audio": [chunk("a", 5, CHUNK), chunk("a", 6, CHUNK)],
    "audio that the other gateway has sent long since": [chunk("a", 2, CHUNK)],
    "audio that the other gateway has not sent yet": [chunk("a", 15, CHUNK)],
    "an end": [SessionAbandoned(A, 5)],
    "audio and an end": [chunk("a", 5, CHUNK), SessionAbandoned(A, 6)],
}


async def moved_on(site: Site, late: list[Record], generation: int = 1) -> None:
    """Records of all gateways, and behind them something late of the first, at which another worker begins."""
    begun = 5 if generation else 12
    site.publish(*RECORDS[:begun])
    if generation:
        site.publish(opened("a"), reply_to=1, generation=1, left=(0,))
        site.publish(*RECORDS[begun:12], reply_to=1, generation=1)
    site.broker.committed[TOPICS.audio, 0] = site.broker.end(TOPICS.audio, 0)
    site.publish(*late)
    places = [Place(number, 0, number) for number in range(generation + 1)]
    await site.memory.hand_in(Ticket(A, A, f"g{generation}", b"", opened("a"), tuple(places)))
    lease = await site.memory.claim(A, "the worker before")
    await site.memory.save(lease, opened=opened("a"), checkpoint=checkpoint(12))
    await site.memory.release(lease)


@pytest.mark.parametrize("meanwhile_s", [0, 3], ids=["read at once", "the session is opened before more comes"])
@pytest.mark.parametrize("what", list(LATE))
def test_what_a_former_gateway_says_late_costs_the_session_nothing_at_the_next_worker(
    what: str, meanwhile_s: float
) -> None:
    async def play(site: Site) -> None:
        await moved_on(site, LATE[what])
        listener = Listener(site.worker())
        await asyncio.sleep(meanwhile_s)
        site.publish(*RECORDS[12:], reply_to=1, generation=1)
        await asyncio.sleep(5)
        assert [site.told(0), site.told(1)[-1].session_id] == [[], A]
        assert_goes_on(listener.heard[A], RECORDS)
        assert listener.heard[A][-1] == RECORDS[-1]
        assert site.finished(1) == {A}
        assert await site.memory.load(A) is None, "it is over, and forgotten"

    virtually(play)


@pytest.mark.parametrize(
    "late",
    [
        [chunk("a", 12, b"\1" * len(CHUNK))],
        LATE["audio that the other gateway has not sent yet"],
        LATE["an end"],
    ],
    ids=["other audio where the next is due", "audio from further on", "an end"],
)
def test_what_a_former_gateway_says_late_costs_the_session_nothing_at_the_worker_that_has_it(
    late: list[Record],
) -> None:
    async def play(site: Site) -> None:
        listener = Listener(site.worker())
        site.publish(*RECORDS[:5])
        site.publish(opened("a"), reply_to=1, generation=1, left=(0,))
        site.publish(*RECORDS[5:12], reply_to=1, generation=1)
        await asyncio.sleep(3)
        site.publish(*late)
        site.publish(*RECORDS[12:], reply_to=1, generation=1)
        await asyncio.sleep(5)
        assert listener.heard[A] == RECORDS
        assert site.finished(1) == {A}

    virtually(play)


@pytest.mark.parametrize("generation", [0, 1])
def test_the_end_of_a_session_of_which_nothing_else_is_left_to_read_is_its_end(generation: int) -> None:
    async def play(site: Site) -> None:
        await moved_on(site, [], generation)
        site.publish(SessionAbandoned(A, 12), generation=generation)
        worker = site.worker()
        listener = Listener(worker)
        await asyncio.sleep(3)
        assert not worker.sessions
        assert not listener.heard
        assert await site.memory.load(A) is None

    virtually(play)
