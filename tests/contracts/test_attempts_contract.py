"""The counters of what finalizers try: Redis' and those of tests count alike, and Redis may be away."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from streamscribe.bus.kafka.finals.trying import Attempts
from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.store.redis_attempts import AWAY_S, TRIES, RedisAttempts
from tests.contracts.finals_rig import MemoryAttempts
from tests.contracts.redis_server import redis_server

S, OTHER = SessionId("s"), SessionId("other")


class AttemptsContract:
    async def test_each_process_is_told_how_many_others_have_begun_and_not_ended(self, attempts: Attempts) -> None:
        assert [await attempts.begin(S, 1, by, fewer_than=9) for by in "abc"] == [0, 1, 2]

    async def test_a_process_counts_once_however_often_it_begins(self, attempts: Attempts) -> None:
        assert [await attempts.begin(S, 1, by, fewer_than=9) for by in "aabaab"] == [0, 0, 1, 1, 1, 1]

    async def test_where_enough_have_begun_nobody_is_added(self, attempts: Attempts) -> None:
        told = [await attempts.begin(S, 1, by, fewer_than=2) for by in "abcde"]
        assert told == [0, 1, 2, 2, 2]
        assert [await attempts.begin(S, 1, by, fewer_than=3) for by in "cde"] == [2, 3, 3]

    async def test_segments_and_sessions_are_counted_apart(self, attempts: Attempts) -> None:
        await attempts.begin(S, 1, "a", fewer_than=9)
        assert await attempts.begin(S, 2, "b", fewer_than=9) == 0
        assert await attempts.begin(OTHER, 1, "b", fewer_than=9) == 0

    async def test_what_is_taken_back_was_none_and_leaves_what_others_began(self, attempts: Attempts) -> None:
        await attempts.begin(S, 1, "ended", fewer_than=9)
        for _ in range(3):
            await attempts.begin(S, 1, "a", fewer_than=9)
            await attempts.take_back(S, 1, "a")
            await attempts.take_back(S, 1, "a")
        assert await attempts.begin(S, 1, "b", fewer_than=9) == 1

    async def test_what_went_well_is_forgotten(self, attempts: Attempts) -> None:
        for by in "ab":
            await attempts.begin(S, 1, by, fewer_than=9)
        await attempts.end(S, 1)
        assert await attempts.begin(S, 1, "c", fewer_than=9) == 0

    async def test_many_at_once_are_all_counted(self, attempts: Attempts) -> None:
        told = await asyncio.gather(*(attempts.begin(S, 1, f"{one}", fewer_than=99) for one in range(50)))
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


async def test_without_redis_no_attempt_is_noted_and_nobody_waits_again_and_again(tmp_path: Path) -> None:
    now = [0.0]
    with redis_server(tmp_path) as url:
        attempts = RedisAttempts(url, timeout_s=20, max_connections=4, clock=lambda: now[0])
        assert [await attempts.begin(S, 1, by, fewer_than=9) for by in "ab"] == [0, 1]
    assert [await attempts.begin(S, 1, by, fewer_than=9) for by in "ab"] == [None, None]
    await attempts.take_back(S, 1, "a")
    await attempts.end(S, 1)
    assert attempts.failures == TRIES
    now[0] = AWAY_S
    assert await attempts.begin(S, 1, "a", fewer_than=9) is None
    assert attempts.failures == 2 * TRIES
    await attempts.close()


class Unsure(RedisAttempts):
    """Of a Redis that fails each call that `fails` says so of: it is done then, or it is not."""

    def __init__(self, url: str, fails: Callable[[], bool]) -> None:
        super().__init__(url, timeout_s=20, max_connections=4, clock=count(0.0, 2 * AWAY_S).__next__)
        ask = self._link.ask

        async def failing(call: Callable[[], Awaitable[Any]]) -> Any:
            fail = fails()
            if fail and fails():
                raise StoreUnavailable
            answer = await ask(call)
            if fail:
                raise StoreUnavailable
            return answer

        self._link.ask = failing  # type: ignore[method-assign]


async def test_a_redis_that_fails_at_times_blames_no_segment_of_a_process_that_lives(redis_url: str) -> None:
    rng = random.Random(7)
    first, second = (Unsure(redis_url, lambda: rng.random() < 0.2) for _ in range(2))
    await first._link.client.flushall()
    for number in range(400):
        by, attempts = (("first", first), ("second", second))[number % 2]
        before = await attempts.begin(S, number % 5, by, fewer_than=2)
        assert before in (None, 0, 1), "the other may have still to erase its own"
        await (attempts.take_back(S, number % 5, by) if number % 3 else attempts.end(S, number % 5))
    for attempts in (first, second):
        while attempts._owed:
            await attempts._pay()
    well = RedisAttempts(redis_url, timeout_s=5, max_connections=4)
    assert [await well.begin(S, segment, "third", fewer_than=2) for segment in range(5)] == [0] * 5
    for attempts in (first, second, well):
        await attempts.close()


async def test_what_could_not_be_erased_is_when_its_process_leaves(tmp_path: Path) -> None:
    failing = [False]
    with redis_server(tmp_path) as url:
        leaving = Unsure(url, lambda: failing[0])
        await leaving.begin(S, 1, "a", fewer_than=2)
        failing[0] = True
        await leaving.end(S, 1)
        failing[0] = False
        await leaving.close()
        other = RedisAttempts(url, timeout_s=5, max_connections=4)
        assert await other.begin(S, 1, "b", fewer_than=2) == 0
        await other.close()


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"(?i)redis"):
        RedisAttempts("http://nowhere", timeout_s=1, max_connections=1)
