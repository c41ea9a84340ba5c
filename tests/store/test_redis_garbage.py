"""What is in Redis and nobody can read is passed over or a typed error, whoever put it there: it ends no process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis as client

from streamscribe.core.errors import InternalError, StoreUnavailable, StreamScribeError
from streamscribe.core.quarantine import NO_ENDS
from streamscribe.ports import Kept
from streamscribe.store.redis_board import RedisBoard
from streamscribe.store.redis_link import PREFIX
from streamscribe.store.redis_sessions import RedisSessions
from streamscribe.store.redis_tickets import places_text
from streamscribe.wire import worker_board
from tests.contracts.redis_server import redis_server
from tests.contracts.session_store import ACME, S1, S2, checkpoint, opened, seat, ticket

GARBAGE = (b"garbage", b"\xff\xfe", b"nan", b"inf", b"-inf", b"-5", b"9" * 30, b"9" * 400, b"1e300", b"0x1p3", b"")
RECORD = f"{PREFIX}session:{S1}"
FAR = 4e15
"""A score beyond all that are ours, until the year 2096."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("garbage")) as url:
        yield url


@pytest.fixture
def admin(url: str) -> Iterator[Any]:
    with client.Redis.from_url(url) as connected:
        connected.flushdb()
        yield connected


@pytest.fixture
async def board(url: str, admin: Any) -> AsyncIterator[RedisBoard]:
    made = RedisBoard(url, timeout_s=5)
    yield made
    await made.close()


@pytest.fixture
async def store(url: str, admin: Any) -> AsyncIterator[RedisSessions]:
    made = RedisSessions(url, lease_ttl_s=1000, seat_ttl_s=6000, keep_s=60_000, timeout_s=5)
    yield made
    await made.close()


# the board


async def test_names_that_no_worker_has_are_passed_over(board: RedisBoard, admin: Any) -> None:
    await board.announce("a", b"one", 0)
    for name in GARBAGE[1:2]:
        admin.hset(f"{PREFIX}worker-texts", name, b"null")
        admin.zadd(f"{PREFIX}workers", {name: FAR})
    assert await board.announced() == {"a": b"one"}
    number, asked = await board.order(b"x")
    assert list(asked) == ["a"]
    admin.hset(f"{PREFIX}answers:{number}", b"\xff", b"done")
    await board.answer(number, "a", b"done")
    assert await board.answers(number) == {"a": b"done"}


@pytest.mark.parametrize("score", [5.0, 1.5, FAR, FAR + 0.5])
async def test_orders_that_are_none_ask_nobody_and_hide_none(board: RedisBoard, admin: Any, score: float) -> None:
    await board.announce("a", b"", 0)
    admin.zadd(f"{PREFIX}orders", {b"%d" % at + text: score + at for at, text in enumerate(2 * GARBAGE)})
    admin.zadd(f"{PREFIX}orders", {b"\n": score, b"": score, b" a\nx": score})
    number, _ = await board.order(b"ours")
    heard, found = 0, []
    while posted := await board.announce("a", b"", heard):
        heard = posted[-1].number
        found += [one for one in posted if one.asked]
    assert [(one.number, one.text) for one in found] == [(number, b"ours")]


@pytest.mark.parametrize("score", [float("inf"), 1e300, 2.0**60])
async def test_orders_beyond_all_numbers_do_not_keep_ours_from_anybody(
    board: RedisBoard, admin: Any, score: float
) -> None:
    await board.announce("a", b"", 0)
    admin.zadd(f"{PREFIX}orders", {b"x": score})
    assert await board.announce("a", b"", 0) == []
    first, _ = await board.order(b"1")
    second, _ = await board.order(b"2")
    assert [one.number for one in await board.announce("a", b"", 0)] == [first, second]


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        *GARBAGE,
        b'{"what":"purge","tenant":"\xff"}',
        b'{"what":"purge","x":' + DEEP,
        b'{"partitions":' + DEEP,
        b'{"problem":' + DEEP,
        b'{"partitions":[-1],"voices":{},"models":[]}',
        b'{"partitions":[],"voices":{"0":[-5,0]},"models":[]}',
        b'{"partitions":[],"voices":{},"models":[["m",1,-1,0]]}',
        b'{"partitions":[],"voices":{},"models":[["m",1e999,1,0]]}',
    ],
    ids=range(19),
)
def test_a_text_that_is_none_of_ours_is_as_if_not_there(text: bytes) -> None:
    assert worker_board.decode_load(text) is None
    assert not worker_board.takes_no_sessions(text)
    assert worker_board.decode_order(text) is None
    with suppress(StreamScribeError):
        worker_board.decode_told(text)


LOAD = {
    "partitions": b"[0]",
    "voices": b'{"0":[1,0]}',
    "models": b'[["m",1,1,0]]',
    "outage": b"false",
    "late_tenants": b'["acme"]',
}
HUGE = b"9" * 400
NO_COUNTS = (b"-1", b"1.5", b'"0"', b"null", b"[]", b"true", b"2147483648", HUGE)
NO_FIGURES = (b"-1", b"1e999", b'"0"', b"null", b"[]", b"true", HUGE)
NO_TENANTS = (
    b'""',
    b'" "',
    b'"a b"',
    b'"-"',
    b'"\\u0000"',
    b'"\xc3\xa9"',
    b'"' + b"x" * 65 + b'"',
    b'"a\\n"',
    b"1",
    b"null",
)
NO_VALUES = {
    "partitions": [b"0", b"{}", *(b"[0,%b]" % one for one in NO_COUNTS)],
    "voices": [
        *(b"0", b"[]", b'{"":[1,0]}', b'{"x":[1,0]}', b'{"-1":[1,0]}', b'{"%b":[1,0]}' % HUGE, b'{"0":[1]}'),
        *(b'{"0":[1,%b]}' % one for one in NO_COUNTS),
        *(b'{"0":[%b,0]}' % one for one in NO_COUNTS),
    ],
    "models": [
        *(b"0", b"{}", b"[0]", b"[[]]", b'[["m",1,1]]', b"[[1,1,1,0]]"),
        *(b'[["m",%b,1,0]]' % one for one in NO_FIGURES),
        *(b'[["m",1,%b,0]]' % one for one in NO_FIGURES),
        *(b'[["m",1,1,%b]]' % one for one in NO_FIGURES),
    ],
    "outage": [b"0", b'"true"', b"[]", b"null"],
    "late_tenants": [b"0", b'"acme"', b"{}", *(b'["acme",%b]' % one for one in NO_TENANTS)],
}


def load_text(**values: bytes) -> bytes:
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value) for name, value in (LOAD | values).items())


def test_a_load_as_workers_tell_it_is_read() -> None:
    read = worker_board.decode_load(load_text())
    assert read is not None
    assert read.late == {ACME}


@pytest.mark.parametrize("field", NO_VALUES)
def test_a_load_of_which_one_field_has_a_value_that_no_worker_tells_is_as_if_not_there(field: str) -> None:
    for value in NO_VALUES[field]:
        assert worker_board.decode_load(load_text(**{field: value})) is None, value


# sessions

FIELDS = (
    *("epoch", "first_epoch", "owner", "lease_end_us", "ends", "same", "ended_at", "place"),
    *("since_us", "told_us", "saved_us", "at", "skip", "checkpoint_ms", "received_ms", "processed_ms"),
    *("opened", "checkpoint", "tenant", "called", "gateway", "stage", "ticket", "places", "models"),
)


@pytest.mark.parametrize("field", FIELDS)
async def test_whatever_a_field_of_a_session_has_nobody_ends_by_it(
    store: RedisSessions, admin: Any, field: str
) -> None:
    """And others that are asked for in the same calls have what is theirs."""
    for garbage in GARBAGE:
        admin.flushdb()
        for name in (S1, S2):
            await store.enter(seat(name), max_sessions=9)
        await store.hand_in(ticket())
        mine, others = await store.claim(S1, "w1"), await store.claim(S2, "w1")
        await store.save(mine, opened=opened(), checkpoint=checkpoint(3))
        admin.hset(RECORD, field, garbage)
        assert (await store.renew([mine, others]))[1] is not None
        await store.keep([seat(S1), seat(S2)])
        await store.abandon([mine, others], 1)
        page = await store.sessions(10)
        assert S2 in [one.session_id for one in page.sessions]
        for call in (
            lambda lease=mine: store.save(lease, opened=opened(), checkpoint=checkpoint(4)),
            lambda lease=mine: store.note(lease, 7),
            lambda: store.load(S1),
            lambda: store.ticket(S1),
            lambda: store.session(S1),
            lambda: store.claim(S1, "w2"),
            lambda: store.enter(seat(S1), max_sessions=9, max_per_minute=5),
            lambda lease=mine: store.release(lease),
        ):
            with suppress(StreamScribeError):
                await call()
        assert store.counts().failures == 0, (field, garbage)


async def test_a_key_that_is_no_record_costs_its_session_and_no_other_of_the_same_calls(
    store: RedisSessions, admin: Any
) -> None:
    for name in (S1, S2):
        await store.enter(seat(name), max_sessions=9)
    leases = [await store.claim(name, "w1") for name in (S1, S2)]
    admin.delete(RECORD)
    admin.set(RECORD, "hello")
    assert [lease is not None for lease in await store.renew(leases)] == [False, True]
    assert await store.keep([seat(S1), seat(S2)]) == [Kept.KEPT, Kept.NO_TICKET]
    assert await store.abandon(leases, 1000) == [False, False]
    assert [one.session_id for one in (await store.sessions(10)).sessions] == [S2]
    assert store.counts().failures == 0
    with pytest.raises(StoreUnavailable):
        await store.claim(S1, "w2")


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_session_is_claimed_whatever_is_left_of_its_former_owners(
    store: RedisSessions, admin: Any, garbage: bytes
) -> None:
    admin.hset(RECORD, mapping=dict.fromkeys(("epoch", "lease_end_us", "ends", "same", "first_epoch"), garbage))
    admin.set(f"{PREFIX}epoch", garbage)
    first = await store.claim(S1, "w1")
    assert 10**15 < first.epoch < 10**17
    await store.release(first)
    assert (await store.claim(S1, "w2")).epoch == first.epoch + 1
    admin.hset(RECORD, mapping=dict.fromkeys(("ends", "same", "ended_at"), garbage))
    found = await store.claim(S1, "w2")
    assert found.ends == NO_ENDS


async def test_names_of_sessions_that_are_none_are_passed_over(store: RedisSessions, admin: Any) -> None:
    await store.enter(seat(S1), max_sessions=9)
    admin.zadd(f"{PREFIX}sessions", dict.fromkeys((b"\xff", b"a b", b"", b"x" * 200), FAR))
    admin.zadd(f"{PREFIX}seats:{ACME}", {b"\xff": FAR})
    for page in (await store.sessions(100), await store.sessions(100, ACME)):
        assert [one.session_id for one in page.sessions] == [S1]


async def test_a_gateways_number_is_free_where_nobody_can_read_whose_it_is(store: RedisSessions, admin: Any) -> None:
    for at, garbage in enumerate(GARBAGE):
        admin.hset(f"{PREFIX}gateways", mapping={str(at): garbage, str(at + 1): b"9" * 400 + b" \xff"})
        assert await store.take_number(f"g{at}", range(at, at + 1)) == at
    admin.hset(f"{PREFIX}gateways", "0", b"4000000000000000 \xff")
    taken: Any = await store.take_number("g", range(1))
    assert taken.holder


@pytest.mark.parametrize("where", ["-1:0:0", "0:-1:0", f"{2**31}:0:0", f"0:{2**63}:0", "0:0:0:1:-1:", "0:0", "٣:0:0:x"])
async def test_places_that_no_log_has_are_no_ticket(store: RedisSessions, admin: Any, where: str) -> None:
    await store.hand_in(ticket())
    assert (await store.ticket(S1)) is not None
    admin.hset(RECORD, "places", where)
    with pytest.raises(InternalError):
        await store.ticket(S1)
    assert places_text(ticket().places)


async def test_many_read_at_one_time_while_one_writes_garbage(board: RedisBoard, admin: Any) -> None:
    for garbage in GARBAGE:
        admin.hset(f"{PREFIX}worker-texts", garbage, garbage)
        admin.zadd(f"{PREFIX}orders", {garbage: FAR})
        await asyncio.gather(*(board.announced() for _ in range(5)), *(board.announce("a", b"", 0) for _ in range(5)))
