"""A worker's process without its brokers, and what all roles of a cluster have in common."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from streamscribe.bootstrap import server
from streamscribe.bootstrap.cluster.health import Health, Readiness
from streamscribe.bootstrap.cluster.member import Working, member
from streamscribe.bootstrap.cluster.worker import serve_worker
from streamscribe.bus.kafka import worker as kafka_worker
from streamscribe.cache.levels import Levels
from streamscribe.core.errors import BusUnavailable, StreamScribeError
from streamscribe.gateway.listener import Address
from streamscribe.models.pool import Models
from streamscribe.ports import RecordHandler
from streamscribe.settings import Settings, SettingsError, load
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.redis_server import redis_server

SET = {
    "model.profile": "fake",
    "kafka.brokers": "127.0.0.1:1",
    "store.redis_url": "redis://127.0.0.1:1/0",
    "worker.health_port": 0,
    "worker.hang_timeout_s": 600,  # else a slow machine would end the tests
    "gateway.port": 0,
    "gateway.funasr_port": -1,
}
SETTINGS = load(overrides=SET)
HASTY = load(overrides={**SET, "worker.hang_timeout_s": 1})
ADDRESS = Address("127.0.0.1", 0, "worker.health_port")


class Useless(kafka_worker.KafkaWorkerBus):
    """One that no broker has, and that is of no use any more."""

    done: list[str]
    joined = asyncio.Event()

    async def start(self) -> None:
        """It is connected."""

    async def check(self) -> None:
        """All is well."""

    def attach_worker(self, handler: RecordHandler) -> None:
        """Nothing comes."""

    async def failed(self) -> StreamScribeError:
        return BusUnavailable("of no use")

    async def close(self, *, hung: bool = False) -> None:
        self.done.append("left the group")


async def test_a_worker_leaves_the_group_before_its_models_close_and_these_before_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = Useless.done = list[str]()
    monkeypatch.setattr(kafka_worker, "KafkaWorkerBus", Useless)
    close_models, close_store = Models.close, RedisSessions.close

    def closing(models: Models) -> None:
        done.append("models close")
        close_models(models)

    async def closing_store(store: RedisSessions) -> None:
        done.append("a store closes")
        await close_store(store)

    monkeypatch.setattr(Models, "close", closing)
    monkeypatch.setattr(RedisSessions, "close", closing_store)
    with redis_server(tmp_path) as url:
        settings = load(overrides={**SET, "store.redis_url": url})
        working = serve_worker(settings, started_at=0.0, announce=print, reread=partial(_same, settings))
        with pytest.raises(BaseExceptionGroup) as told:
            await working
    assert told.group_contains(BusUnavailable, match="of no use")
    assert done == ["a store closes", "left the group", "models close", "a store closes"]


async def test_a_process_says_that_it_works_when_its_group_has_given_it_a_share_and_not_before() -> None:
    said: list[Working] = []
    joined = asyncio.Event()
    async with member(SETTINGS, ADDRESS, started_at=0.0, announce=said.append) as me:
        readiness = Readiness(list, Health({}), joined)
        async with me.tells(readiness), me.works("w", joined, lambda: None, Levels([]), {"vad": 0.5}):
            await asyncio.sleep(0)
            assert said == []
            joined.set()
            while not said:
                await asyncio.sleep(0)
    assert [one.warmup_s for one in said] == [{"vad": 0.5}]
    assert said[0].url.startswith("http://127.0.0.1:")
    assert not said[0].url.endswith(":0")


Act = Callable[[], None]


async def _as_a_member(start: Act, stand_still: Act) -> None:
    async with member(HASTY, ADDRESS, started_at=0.0, announce=print) as me:
        start()
        async with me.works("w", asyncio.Event(), lambda: None, Levels([]), {}):
            stand_still()


async def _as_a_gateway(start: Act, stand_still: Act) -> None:
    class Parts:
        def __getattr__(self, name: str) -> object:
            stand_still()
            raise SettingsError("over")

    @asynccontextmanager
    async def parts(settings: Settings) -> AsyncIterator[Parts]:
        start()
        yield Parts()

    reread = partial(_same, HASTY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "cluster_gateway", parts)
        serving = server.serve(HASTY, started_at=0.0, announce=print, reread=reread, role=server.Role.GATEWAY)
        with pytest.raises(SettingsError, match="over"):
            await serving


@pytest.mark.parametrize("run", [_as_a_member, _as_a_gateway])
async def test_each_role_of_a_cluster_ends_where_its_loop_stands_still_and_not_while_it_imports(
    run: Callable[[Act, Act], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(os, "_exit", lambda code: ended.set())
    too_early: list[bool] = []

    def start() -> None:
        too_early.append(ended.wait(4 * HASTY.worker.hang_timeout_s))

    def stand_still() -> None:
        until = time.monotonic() + 20
        while not ended.is_set() and time.monotonic() < until:
            time.sleep(0.01)

    await run(start, stand_still)
    assert too_early == [False]
    assert ended.is_set()


def _same(settings: Settings) -> Settings:
    return settings
