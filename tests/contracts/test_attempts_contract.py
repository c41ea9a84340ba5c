"""The counters of what finalizers try: Redis' and those of tests count alike, and Redis may be away."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from streamscribe.bus.kafka.finals.trying import Attempts
from streamscribe.core.ids import SessionId
from streamscribe.store.redis_attempts import AWAY_S, RedisAttempts
from tests.contracts.finals_rig import MemoryAttempts
from tests.contracts.redis_server import redis_server

S, OTHER = SessionId("s"), SessionId("other")


class AttemptsContract:
    async def test_each_attempt_is_told_how_many_were_before_it(self, attempts: Attempts) -> None:
        assert [await attempts.begin(S, 1) for _ in range(3)] == [0, 1, 2]

    async def test_segments_and_sessions_are_counted_apart(self, attempts: Attempts) -> None:
        await attempts.begin(S, 1)
        assert (await attempts.begin(S, 2), await attempts.begin(OTHER, 1)) == (0, 0)

    async def test_what_is_taken_back_was_none(self, attempts: Attempts) -> None:
        for _ in range(3):
            await attempts.begin(S, 1)
            await attempts.take_back(S, 1)
        assert await attempts.begin(S, 1) == 0

    async def test_what_went_well_is_forgotten(self, attempts: Attempts) -> None:
        for _ in range(2):
            await attempts.begin(S, 1)
        await attempts.end(S, 1)
        assert await attempts.begin(S, 1) == 0

    async def test_many_at_once_are_all_counted(self, attempts: Attempts) -> None:
        told = await asyncio.gather(*(attempts.begin(S, 1) for _ in range(50)))
        assert set(told) == set(range(50))


class TestMemory(AttemptsContract):
    @pytest.fixture
    def attempts(self) -> MemoryAttempts:
        return MemoryAttempts()


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


class TestRedis(AttemptsContract):
    @pytest.fixture
    async def attempts(self, redis_url: str) -> AsyncIterator[RedisAttempts]:
        running = RedisAttempts(redis_url, timeout_s=5, max_connections=4)
        await running._link.client.flushall()
        yield running
        await running.close()


async def test_without_redis_no_attempt_is_counted_and_nobody_waits_again_and_again(tmp_path: Path) -> None:
    now = [0.0]
    with redis_server(tmp_path) as url:
        attempts = RedisAttempts(url, timeout_s=20, max_connections=4, clock=lambda: now[0])
        assert [await attempts.begin(S, 1) for _ in range(2)] == [0, 1]
    assert [await attempts.begin(S, 1) for _ in range(2)] == [None, None]
    await attempts.take_back(S, 1)
    await attempts.end(S, 1)
    assert attempts.failures == 1
    now[0] = AWAY_S
    assert await attempts.begin(S, 1) is None
    assert attempts.failures == 2
    await attempts.close()


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"(?i)redis"):
        RedisAttempts("http://nowhere", timeout_s=1, max_connections=1)
