"""Whom a gateway of a cluster lets in, by what workers tell; and what it asks of all of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pytest
import redis
from pydantic import SecretStr

from streamscribe.bootstrap.cluster import board as ends
from streamscribe.bootstrap.cluster.board import BoardReader, BoardWriter, open_board
from streamscribe.bootstrap.cluster.door import BUS, STORE, ClusterDoor, WorkersDoor
from streamscribe.bootstrap.cluster.health import Health
from streamscribe.bootstrap.desk import LevelsDesk, WorkersDesk
from streamscribe.cache.levels import BlobLevel, Levels
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.core.cluster_load import GatewayVoices, WorkerLoad
from streamscribe.core.errors import BusUnavailable, CacheUnavailable, ModelUnavailable, Overloaded, StoreUnavailable
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.load import ModelLoad
from streamscribe.core.options import SessionOptions
from streamscribe.observe.load import LoadControl
from streamscribe.settings import LimitSettings, StoreSettings
from streamscribe.wire import worker_board as wire
from tests.cache.kit import ACME, KEYS
from tests.contracts.redis_server import redis_server

T = TypeVar("T")

BETA = TenantId("beta")
LIVE, FILE = SessionOptions(), SessionOptions(live=False)
BUSY, CALM = ModelLoad("vad", 1.2, 8, 0.01), ModelLoad("vad", 0.2, 8, 0.01)


def load(*partitions: int, model: ModelLoad = CALM, outage: bool = False, late: Iterable[TenantId] = ()) -> WorkerLoad:
    return WorkerLoad(frozenset(partitions), {1: GatewayVoices(8, 0)}, (model,), outage, frozenset(late))


class Door:
    """A door, its clock, why it refused; a session's partition is the number that its name begins with."""

    def __init__(self, **loads: WorkerLoad) -> None:
        self.reasons: list[str] = []
        self.now = 50.0
        partition_of, shed = lambda one: int(one[0], 16) % 4, self.reasons.append
        self.door = WorkersDoor(LimitSettings(), 0, partition_of, shed, lambda: self.now)
        self.door.heard(loads)

    def admit(
        self, name: str, options: SessionOptions = LIVE, tenant: TenantId = ACME, *, resumes: bool = False
    ) -> object:
        return self.door.admit(options, SessionId(name), tenant, resumes=resumes)


def test_a_session_is_let_in_by_the_worker_that_will_have_it() -> None:
    at = Door(a=load(0, 1, model=BUSY), b=load(2, 3))
    assert isinstance(at.admit("0x"), Overloaded)
    assert at.admit("2x") is None
    assert at.reasons == ["utilisation"]
    at.door.release(SessionId("2x"))
    at.door.release(SessionId("0x"))
    at.door.check_integrity()


def test_a_tenant_whose_finals_are_late_at_a_worker_gets_no_new_live_session_there_and_keeps_all_others() -> None:
    at = Door(a=load(0, 1, late=[ACME]), b=load(2, 3))
    assert isinstance(at.admit("0x"), Overloaded)
    assert at.admit("0f", FILE) is None
    assert at.admit("0r", resumes=True) is None
    assert at.admit("2x") is None
    assert at.reasons == ["finals"]
    assert sum(int(at.door.new_id(ACME)[0], 16) % 4 in (2, 3) for _ in range(100)) >= 95
    assert not Door(a=load(0, late=[ACME])).door.nobody_serves


def test_a_tenants_late_finals_keep_no_other_tenant_out_or_away() -> None:
    at = Door(a=load(0, 1, late=[ACME]), b=load(2, 3, model=BUSY))
    assert at.admit("0x", tenant=BETA) is None
    assert not at.reasons
    assert sum(int(at.door.new_id(BETA)[0], 16) % 4 in (0, 1) for _ in range(100)) >= 95


@pytest.mark.parametrize("told", [load(0, 3), load(outage=True), load(1, late=[ACME, BETA])])
def test_what_a_worker_tells_of_its_load_is_heard_as_it_was_told(told: WorkerLoad) -> None:
    assert wire.decode_load(wire.encode_load(told)) == told


def test_a_new_session_gets_an_id_of_a_worker_that_has_less_to_do() -> None:
    at = Door(a=load(0, 1, model=BUSY), b=load(2, 3))
    ids = [at.door.new_id(ACME) for _ in range(100)]
    at_b = sum(int(one[0], 16) % 4 in (2, 3) for one in ids)
    assert len(set(ids)) == 100
    assert at_b >= 95  # of 8 ids none is of b once in 256


def test_where_a_partition_moves_the_least_loaded_worker_decides() -> None:
    assert Door(a=load(0, model=BUSY), b=load(1)).admit("3x") is None
    assert isinstance(Door(a=load(0, model=BUSY), b=load(1, model=BUSY)).admit("3x"), Overloaded)


@pytest.mark.parametrize("ill", [load(0, outage=True), load(0, late=[ACME])])
@pytest.mark.parametrize("well", [CALM, ModelLoad("vad", 0.5, 8, 0.01)])
def test_where_a_partition_moves_one_that_is_ill_decides_only_where_all_are(ill: WorkerLoad, well: ModelLoad) -> None:
    idle = replace(ill, voices={}, models=())
    assert Door(a=idle, b=load(1, model=well)).admit("3x") is None
    assert isinstance(Door(a=idle).admit("3x"), Overloaded | ModelUnavailable)


def test_where_a_partition_moves_a_file_goes_to_one_whose_finalizers_are_late_rather_than_to_one_that_is_out() -> None:
    out = replace(load(0, outage=True), voices={}, models=())
    assert Door(a=out, b=load(1, late=[ACME])).admit("3f", FILE) is None


def test_files_are_kept_out_by_no_load_but_by_an_outage_and_who_resumes_by_nothing() -> None:
    at = Door(a=load(0, model=BUSY), b=load(1, outage=True))
    assert at.admit("0f", FILE) is None
    assert isinstance(at.admit("1f", FILE), ModelUnavailable)
    assert at.admit("0r", resumes=True) is None
    at.door.check_integrity()


def test_without_a_worker_nobody_is_let_in_and_where_nothing_can_be_known_everybody_is() -> None:
    at = Door()
    refused = at.admit("0x")
    assert isinstance(refused, ModelUnavailable)
    assert refused.retry_after_s
    at.door.heard(None)
    assert at.admit("0x") is None


def test_a_gateway_that_knows_of_no_worker_that_serves_lacks_them() -> None:
    assert Door().door.nobody_serves
    assert Door(a=load(0, outage=True)).door.nobody_serves
    assert not Door(a=load(0, outage=True), b=load(1, model=BUSY)).door.nobody_serves
    blind = Door()
    blind.door.heard(None)
    assert not blind.door.nobody_serves


def test_a_partition_that_nobody_has_for_long_takes_no_newcomer_and_who_resumes_waits_there() -> None:
    at = Door(a=load(0, 1), b=load(2))
    assert at.admit("3x") is None
    at.now += 10
    for options in (LIVE, FILE):
        refused = at.admit("3y", options)
        assert isinstance(refused, ModelUnavailable)
        assert refused.retry_after_s
    assert at.admit("3r", resumes=True) is None
    assert at.admit("2x") is None
    assert at.reasons == ["outage", "outage"]
    assert not at.door.nobody_serves
    at.door.heard({"a": load(0, 1, 3), "b": load(2)})
    assert at.admit("3y") is None


def test_a_new_session_gets_an_id_of_the_one_partition_that_has_an_owner() -> None:
    at = Door(a=load(0))
    assert sum(int(at.door.new_id(ACME)[0], 16) % 4 == 0 for _ in range(200)) == 200  # of 64 draws none in 10**8


def test_a_gateway_lacks_workers_where_none_of_them_has_had_a_partition_for_long() -> None:
    at = Door(a=load(), b=load())
    at.now += 9.9
    assert not at.door.nobody_serves
    at.now += 0.2
    assert at.door.nobody_serves
    at.door.heard(None)
    assert not at.door.nobody_serves
    at.door.heard({"a": load(), "b": load()})
    assert not at.door.nobody_serves
    at.now += 11
    at.door.heard({"a": load(0), "b": load()})
    assert not at.door.nobody_serves


class Outage:
    """A cluster's door whose bus and store answer, or not; its clock goes as the test says."""

    def __init__(self, *, admit_when_away: bool) -> None:
        self.now = 100.0
        self.away: set[str] = set()
        self.reasons: list[str] = []
        self.health = Health({name: partial(self._check, name) for name in (BUS, STORE)}, lambda: self.now)
        limits, shed = LimitSettings(), self.reasons.append
        workers = WorkersDoor(limits, 0, lambda one: 0, shed, lambda: self.now)
        workers.heard({"a": load(0)})
        load_here = LoadControl(limits, shed)
        self.door = ClusterDoor(load_here, workers, self.health, shed, without_store=admit_when_away)

    async def _check(self, name: str) -> None:
        if name in self.away:
            raise {BUS: BusUnavailable, STORE: StoreUnavailable}[name](retry_after_s=1.0)

    async def after(self, seconds: float) -> None:
        self.now += seconds
        await self.health.look()

    def refused(self, *, resumes: bool = False) -> str | None:
        """Why; who is let in goes again."""
        error = self.door.admit(LIVE, SessionId("0x"), ACME, resumes=resumes)
        if error is None:
            self.door.release(LIVE, SessionId("0x"))
        return error and error.code


@pytest.mark.parametrize("admit_when_away", [True, False])
async def test_newcomers_are_let_in_for_the_first_seconds_without_the_store_by_setting_and_then_refused(
    admit_when_away: bool,
) -> None:
    at = Outage(admit_when_away=admit_when_away)
    await at.after(0)
    assert at.refused() is None
    at.away = {STORE}
    await at.after(1)
    assert at.refused() == (None if admit_when_away else "store_unavailable")
    await at.after(4)
    assert at.refused() == (None if admit_when_away else "store_unavailable")
    await at.after(1)
    assert at.refused() == "store_unavailable"
    assert set(at.reasons) == {"outage"}
    at.away = set()
    await at.after(1)
    assert at.refused() is None
    at.away = {STORE}
    await at.after(1)
    assert at.refused() == (None if admit_when_away else "store_unavailable")


async def test_who_resumes_was_found_in_the_store_just_now_and_needs_the_bus_alone() -> None:
    at = Outage(admit_when_away=False)
    at.away = {STORE}
    await at.after(60)
    assert at.refused(resumes=True) is None
    at.away = {BUS}
    await at.after(1)
    assert at.refused(resumes=True) == at.refused() == "bus_unavailable"


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def redis_url(server_url: str) -> str:
    """With nothing on the board: what one test ordered, and who was announced, is no other's."""
    with redis.Redis.from_url(server_url) as admin:
        admin.flushdb()
    return server_url


@asynccontextmanager
async def worker(settings: StoreSettings, name: str, blobs: MemoryBlobs) -> AsyncIterator[None]:
    levels = Levels([BlobLevel("texts", blobs, {"memory": blobs}, KEYS, ttl_s=60)])
    async with open_board(settings) as board:
        writer = BoardWriter(board, name, lambda: load(0, 1), LevelsDesk(levels))
        running = asyncio.create_task(writer.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait((running,))


def kept() -> MemoryBlobs:
    blobs = MemoryBlobs(max_bytes=1000)
    blobs.put(KEYS.owner(ACME), KEYS.derive(ACME, "x"), b"text", 60)
    return blobs


async def until(look: Callable[[], Awaitable[T]]) -> T:
    """What `look` gives as soon as it gives anything."""
    async with asyncio.timeout(20):
        while not (found := await look()):
            await asyncio.sleep(0.01)
    return found


async def refused(admin: redis.Redis) -> bool:
    return "errorstat_WRONGTYPE" in await asyncio.to_thread(admin.info, "errorstats")


async def test_a_gateway_knows_those_who_tell_and_purges_all_of_them_and_those_that_begin_later(redis_url: str) -> None:
    settings = StoreSettings(redis_url=SecretStr(redis_url), timeout_s=5)
    door = WorkersDoor(LimitSettings(), 0, lambda one: 0, lambda reason: None)
    async with open_board(settings) as board:
        reader = BoardReader(board, door)
        desk = WorkersDesk(reader.ask_all)
        with pytest.raises(CacheUnavailable, match="no worker"):
            await desk.levels(figures=False)
        first, second, third = kept(), kept(), kept()
        async with worker(settings, "a", first), worker(settings, "b", second):
            while door.count < 2:
                await reader.read()
            (level,) = await desk.levels(figures=True)
            assert level.tiers[0].entries == 2
            purged = await desk.purge(ACME)
            assert (purged.purged, purged.workers) == ({"texts": 2}, 2)
        await reader.read()
        assert door.count == 0
        async with worker(settings, "c", third):
            while third.usage().entries:
                await asyncio.sleep(0.01)


async def test_a_worker_that_does_not_answer_is_told_of(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = StoreSettings(redis_url=SecretStr(redis_url), timeout_s=5)
    monkeypatch.setattr(ends, "ANSWERS_TIMEOUT_S", 1.0)
    door = WorkersDoor(LimitSettings(), 0, lambda one: 0, lambda reason: None)
    blobs = kept()
    async with open_board(settings) as board, worker(settings, "a", blobs):
        reader = BoardReader(board, door)
        while door.count < 1:
            await reader.read()
        await board.announce("deaf", b"no load of ours", 0)
        with pytest.raises(CacheUnavailable, match="1 of 2 workers"):
            await WorkersDesk(reader.ask_all).purge(ACME)
        await reader.read()
        assert (door.count, blobs.usage().entries) == (1, 0)


async def test_what_is_asked_before_a_workers_first_look_is_answered_and_what_was_asked_before_it_came_is_not(
    redis_url: str,
) -> None:
    settings = StoreSettings(redis_url=SecretStr(redis_url), timeout_s=5)
    async with open_board(settings) as board:
        before, nobody = await board.order(wire.encode(wire.Order("outline")))
        await board.announce("a", wire.encode_load(load(0)), 0)  # heard by all but itself: its reply is lost
        meanwhile, asked = await board.order(wire.encode(wire.Order("facts")))
        assert (nobody, asked) == ([], ["a"])
        async with worker(settings, "a", kept()):
            answers = await until(lambda: board.answers(meanwhile))
        assert answers.keys() == {"a"}
        assert await board.answers(before) == {}


async def test_an_answer_that_redis_did_not_take_is_told_again(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "EVERY_S", 0.01)
    settings = StoreSettings(redis_url=SecretStr(redis_url), timeout_s=5)
    with redis.Redis.from_url(redis_url) as admin:
        admin.config_resetstat()
        async with open_board(settings) as board:
            await board.announce("a", wire.encode_load(load(0)), 0)
            number, _ = await board.order(wire.encode(wire.Order("facts")))
            admin.set(place := f"streamscribe:answers:{number}", "in the way")
            async with worker(settings, "a", kept()):
                await until(partial(refused, admin))
                admin.delete(place)
                assert (await until(lambda: board.answers(number))).keys() == {"a"}
