"""Who of a cluster runs, by what each says of itself in a real Redis; and what `doctor` makes of it."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
from pydantic import SecretStr

from streamscribe.bootstrap.cluster.board import open_board
from streamscribe.bootstrap.cluster.roster import Present, findings_of, tell_standstill, who_runs
from streamscribe.bootstrap.sessions import open_shared_sessions
from streamscribe.core.cluster_load import WorkerLoad
from streamscribe.settings import FinalizerSettings, KafkaSettings, ModelSettings, Settings, StoreSettings
from streamscribe.wire import worker_board as wire
from tests.contracts.redis_server import redis_server

KAFKA = KafkaSettings(brokers="127.0.0.1:9", audio_partitions=4)


def load(*partitions: int, outage: bool = False) -> WorkerLoad:
    return WorkerLoad(frozenset(partitions), {}, (), outage)


def told(present: Present, **more: object) -> dict[str, tuple[bool, bool, str]]:
    settings = Settings.model_validate({"kafka": KAFKA, "model": ModelSettings(profile="fake"), **more})
    return {one.name: (one.ok, one.needed, one.detail) for one in findings_of(present, settings)}


def test_each_process_is_named_with_what_it_has() -> None:
    workers = {"b": load(0, 1, 3), "a": load(2, outage=True), "c": load()}
    assert told(Present({7: "g2", 3: "g1"}, workers, ["f1"])) == {
        "gateways": (True, False, "2: g1 (number 3), g2 (number 7)"),
        "workers": (
            True,
            False,
            "3: a (partitions 2, its models serve nobody), b (partitions 0-1, 3), c (no partition)",
        ),
        "partitions of audio-chunks": (True, True, "each has a worker"),
        "finalizers": (True, False, "1: f1"),
    }


def test_where_workers_run_and_partitions_have_none_that_fails_and_names_them() -> None:
    ok, needed, detail = told(Present({}, {"a": load(1)}, []))["partitions of audio-chunks"]
    assert (ok, needed) == (False, True)
    assert "no worker has 0, 2-3," in detail


def test_where_nobody_runs_yet_nothing_fails_and_each_role_is_told_how_it_starts() -> None:
    enabled = told(Present({}, {}, []), finalizer=FinalizerSettings(enabled=True))
    assert enabled == dict.fromkeys(("gateways", "workers", "finalizers"), (False, False, "none runs"))
    found = findings_of(Present({}, {}, []), Settings(kafka=KAFKA, model=ModelSettings(profile="fake")))
    assert [one.type_this for one in found] == ["streamscribe gateway", "streamscribe worker --profile fake"]


def test_of_topics_that_are_not_as_set_no_partition_is_missed() -> None:
    found = findings_of(Present({}, {"a": load(1)}, []), Settings(kafka=KAFKA), topics_as_set=False)
    assert [one.name for one in found] == ["gateways", "workers"]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


async def test_those_that_say_so_run_and_one_that_gets_its_partitions_meanwhile_is_waited_for(redis_url: str) -> None:
    settings = Settings(kafka=KAFKA, store=StoreSettings(redis_url=SecretStr(redis_url), seat_ttl_s=60))
    store = open_shared_sessions(settings.store, 10)
    assert await store.take_number("g1", range(2, 3)) == 2
    with redis.Redis.from_url(redis_url) as server:
        server.hset("streamscribe:gateways", mapping={"5": "1 dead", "x": "y", "6": "no"})
    async with open_board(settings.store, 10) as board:
        partitions = [0, 1]

        async def announce() -> None:
            while True:
                await board.announce("w1", wire.encode_load(load(*partitions)), 0)
                await board.announce("finalizer-f", wire.encode_load(None), 0)
                await asyncio.sleep(0.05)

        announcing = asyncio.create_task(announce())
        while not (await board.announced()).keys() >= {"w1", "finalizer-f"}:
            await asyncio.sleep(0.01)
        assert (await who_runs(settings, 0)).unowned(4) == [2, 3]
        looking = asyncio.create_task(who_runs(settings, 60))
        partitions += [2, 3]
        found = await looking
        announcing.cancel()
    await store.close()
    assert found.unowned(4) == []
    assert (found.gateways, found.workers, found.finalizers) == ({2: "g1"}, {"w1": load(0, 1, 2, 3)}, ["finalizer-f"])


async def test_that_nobody_gets_partitions_although_workers_run_is_told_once_each_time(redis_url: str) -> None:
    settings = Settings(kafka=KAFKA, store=StoreSettings(redis_url=SecretStr(redis_url)))
    told: list[str] = []

    async def until(number: int) -> None:
        while len(told) < number:
            await board.announce("w2", wire.encode_load(load(*partitions)), 0)
            await asyncio.sleep(0.05)

    async with open_board(settings.store, 10) as board:
        partitions = [1]
        telling = asyncio.create_task(tell_standstill(settings, told.append, 0))
        await until(1)
        assert "no worker has partitions 0, 2-3 of audio-chunks" in told[0]
        assert "Ctrl-C and start it again (docs/kafka.md, When no worker gets a partition)" in told[0]
        for partitions, times in ([0, 1, 2, 3], 40), ([1], 0):
            for _ in range(times):
                await board.announce("w2", wire.encode_load(load(*partitions)), 0)
                await asyncio.sleep(0.05)
        await until(2)
        telling.cancel()
        await board.withdraw("w2")
    assert len(told) == 2
