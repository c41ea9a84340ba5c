"""The notice board of a cluster on a real Redis: what is told ends, what is ordered reaches all, in order."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis as client

from streamscribe.core.errors import StoreUnavailable
from streamscribe.store import redis_board
from streamscribe.store.redis_board import RedisBoard
from tests.contracts.redis_server import redis_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("board")) as url:
        yield url


@pytest.fixture
async def board(url: str) -> AsyncIterator[RedisBoard]:
    with client.Redis.from_url(url) as admin:
        admin.flushdb()
    made = RedisBoard(url, timeout_s=5)
    yield made
    await made.close()


async def test_what_workers_say_of_themselves_is_there_until_they_withdraw_or_fall_silent(
    board: RedisBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await board.announce("a", b"one", 0)
    await board.announce("a", b"two", 0)
    await board.announce("b", b"\xff\x00", 0)
    assert await board.announced() == {"a": b"two", "b": b"\xff\x00"}
    await board.withdraw("b")
    assert await board.announced() == {"a": b"two"}
    monkeypatch.setattr(redis_board, "ANNOUNCED_S", 0.05)
    await board.announce("a", b"three", 0)
    while await board.announced():
        await asyncio.sleep(0.01)


async def test_orders_reach_each_worker_once_in_order_and_those_that_begin_later(board: RedisBoard) -> None:
    for worker in ("a", "b"):
        assert await board.announce(worker, b"", 0) == []
    first, asked = await board.order(b"same words")
    second, _ = await board.order(b"same words")
    assert sorted(asked) == ["a", "b"]
    heard = await board.announce("a", b"", 0)
    assert [(one.number, one.text) for one in heard] == [(first, b"same words"), (second, b"same words")]
    assert [one.number for one in await board.announce("a", b"", first)] == [second]
    assert await board.announce("a", b"", second) == []
    assert len(await board.announce("new", b"", 0)) == 2


async def test_answers_are_of_their_order_and_worker(board: RedisBoard) -> None:
    await board.announce("a", b"", 0)
    number, _ = await board.order(b"x")
    other, _ = await board.order(b"y")
    await board.answer(number, "a", b"done")
    assert (await board.answers(number), await board.answers(other)) == ({"a": b"done"}, {})


async def test_old_orders_give_way(board: RedisBoard) -> None:
    numbers = [(await board.order(b"x"))[0] for _ in range(redis_board.MAX_ORDERS + 3)]
    assert numbers == sorted(set(numbers))
    assert (await board.announce("a", b"", 0))[0].number == numbers[3]


async def test_a_redis_that_is_not_there_is_said_at_once() -> None:
    board = RedisBoard("redis://127.0.0.1:1/0", timeout_s=1)
    with pytest.raises(StoreUnavailable):
        await board.announced()
    await board.close()
