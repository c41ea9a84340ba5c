"""Numbers of gateways in a real Redis: each has its own, whoever dies, waits, or loses it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
import redis

from streamscribe.bootstrap.cluster.number import GatewayNumber, search
from streamscribe.bootstrap.sessions import open_shared_sessions
from streamscribe.core.errors import StoreUnavailable
from streamscribe.settings import KafkaSettings, SettingsError, StoreSettings
from streamscribe.store.numbers import NumbersTaken
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.redis_server import redis_server

SEAT_S = 2.0
"""Of those who die: the number of one that does not keep it is free after so long."""
KEEP_EVERY_S = 0.1
FIRST = KafkaSettings(result_partitions=3)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisSessions]:
    with redis.Redis.from_url(redis_url) as server:
        server.flushall()
    opened = open_shared_sessions(StoreSettings(redis_url=redis_url, seat_ttl_s=60, timeout_s=10))
    yield opened
    await opened.close()


@pytest.fixture
async def brief(redis_url: str, store: RedisSessions) -> AsyncIterator[RedisSessions]:
    """The same, whose numbers are soon free."""
    opened = open_shared_sessions(StoreSettings(redis_url=redis_url, seat_ttl_s=SEAT_S, timeout_s=10))
    yield opened
    await opened.close()


def of(store: RedisSessions, gateway: str, begin: int = 0) -> GatewayNumber:
    return GatewayNumber(store, gateway, KEEP_EVERY_S, lambda count: min(begin, count - 1))


async def test_each_of_many_that_ask_at_once_gets_a_number_of_its_own(store: RedisSessions) -> None:
    many = KafkaSettings(result_partitions=20)
    taken = await asyncio.gather(*(of(store, f"g{n}").take(many) for n in range(20)))
    assert sorted(taken) == list(range(20))


async def test_the_search_begins_anywhere_and_comes_round(store: RedisSessions) -> None:
    assert [await of(store, f"g{n}", begin=2).take(FIRST) for n in range(3)] == [2, 0, 1]


async def test_who_is_told_that_all_are_taken_hears_of_the_one_that_ends_first(store: RedisSessions) -> None:
    """Wherever it began."""
    for n in (1, 2, 0):
        await of(store, f"g{n}", begin=n).take(FIRST)
    late = [await search(store, "late", range(3), middle) for middle in range(3)]
    assert all(isinstance(found, NumbersTaken) and found.holder == "g1" for found in late)
    assert len(set(late)) == 1


async def test_a_gateway_that_starts_at_a_store_that_has_lost_all_takes_none_that_another_still_has_but_by_chance(
    redis_url: str, store: RedisSessions
) -> None:
    many, taken = KafkaSettings(result_partitions=10_000), set()
    for n in range(3):
        taken.add(await GatewayNumber(store, f"g{n}", KEEP_EVERY_S).take(many))
        with redis.Redis.from_url(redis_url) as server:
            server.flushall()
    assert len(taken) > 1


async def test_a_number_that_a_gateway_has_is_an_error_that_names_both(store: RedisSessions) -> None:
    first = of(store, "first")
    assert await first.take(KafkaSettings(result_partitions=3, gateway_number=2)) == 2
    keeping = asyncio.ensure_future(first.lost())
    with pytest.raises(SettingsError, match=r"kafka\.gateway_number: 2 is that of the gateway first"):
        await of(store, "second").take(KafkaSettings(result_partitions=3, gateway_number=2))
    assert await of(store, "second").take(FIRST) == 0
    keeping.cancel()


async def test_one_gateway_more_than_partitions_is_an_error_that_names_the_setting_and_the_ways_out(
    store: RedisSessions,
) -> None:
    numbers = [of(store, f"g{n}") for n in range(3)]
    assert [await one.take(FIRST) for one in numbers] == [0, 1, 2]
    keeping = [asyncio.ensure_future(one.lost()) for one in numbers]
    with pytest.raises(SettingsError, match=r"kafka\.result_partitions: all 3 .*stop one of them, or .*docs/kafka\.md"):
        await of(store, "late").take(FIRST)
    for one in keeping:
        one.cancel()


async def test_a_number_is_free_at_once_after_an_end_in_order_and_a_while_after_a_death(
    store: RedisSessions, brief: RedisSessions
) -> None:
    only = KafkaSettings(result_partitions=1)
    first, second = of(store, "first"), of(brief, "second")
    await first.take(only)
    await first.free()
    assert await second.take(only) == 0  # and dies
    assert await of(store, "third").take(only) == 0
    await second.free()
    taken = await store.take_number("fourth", range(1))
    assert not isinstance(taken, int)
    assert taken.holder == "third"


async def test_who_was_away_for_long_keeps_its_number_or_hears_who_has_it(redis_url: str, brief: RedisSessions) -> None:
    sleeper = of(brief, "sleeper")
    assert await sleeper.take(FIRST) == 0
    await asyncio.sleep(1.2 * SEAT_S)
    keeping = asyncio.ensure_future(sleeper.lost())
    await asyncio.sleep(0.5 * SEAT_S)
    assert not keeping.done()
    assert not isinstance(await brief.take_number("other", range(1)), int)
    with redis.Redis.from_url(redis_url) as server:
        server.delete("streamscribe:gateways")  # it lost all, and another was quicker
    while not isinstance(await brief.take_number("other", range(1)), int):
        with redis.Redis.from_url(redis_url) as server:
            server.delete("streamscribe:gateways")
    assert await keeping == "other"


async def test_a_number_is_kept_through_a_redis_that_does_not_answer(redis_url: str) -> None:
    hasty = open_shared_sessions(StoreSettings(redis_url=redis_url, seat_ttl_s=SEAT_S, timeout_s=0.2))
    with redis.Redis.from_url(redis_url) as server:
        server.flushall()
        process = int(server.info("server")["process_id"])  # type: ignore[index]
    number = of(hasty, "g")
    while True:
        with suppress(StoreUnavailable):  # so short a time may pass by chance
            await number.take(FIRST)
            break
    keeping = asyncio.ensure_future(number.lost())
    os.kill(process, signal.SIGSTOP)
    await asyncio.sleep(1.2 * SEAT_S)
    os.kill(process, signal.SIGCONT)
    await asyncio.sleep(0.5 * SEAT_S)
    assert not keeping.done()
    keeping.cancel()
    await hasty.close()
