"""Calls of Redis that are cancelled, at whatever moment that comes: a task that lost it would never end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from streamscribe.core.ids import SessionId
from streamscribe.store.redis_attempts import RedisAttempts
from streamscribe.store.redis_board import RedisBoard
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.redis_server import redis_server

TIMES = 100
STEP_S = 0.00003


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("redis")
    with redis_server(folder) as running:
        yield running


async def check(call: Callable[[], Awaitable[object]]) -> None:
    """Cancels a task that calls without end, a little later each time."""

    async def without_end() -> None:
        while True:
            await call()

    await call()
    for at in range(TIMES):
        task = asyncio.create_task(without_end())
        await asyncio.sleep(at * STEP_S)
        task.cancel()
        _, running = await asyncio.wait([task], timeout=30)
        assert not running, f"cancelled in vain after {at * STEP_S * 1e3:.2f} ms"


async def test_a_cancelled_call_of_the_notice_board_ends(url: str) -> None:
    board = RedisBoard(url, 20)
    await check(lambda: board.announce("w1", b"busy", 0))
    await board.close()


async def test_a_cancelled_call_of_the_session_store_ends(url: str) -> None:
    store = RedisSessions(url, lease_ttl_s=5, seat_ttl_s=15, keep_s=60, timeout_s=20)
    await check(lambda: store.claim(SessionId("s1"), "w1"))
    await store.close()


async def test_a_cancelled_call_of_what_counts_attempts_ends(url: str) -> None:
    attempts = RedisAttempts(url, timeout_s=20, max_connections=2)
    await check(lambda: attempts.begin(SessionId("s1"), 1, "f", fewer_than=2))
    await attempts.close()
