"""Sessions in memory and in Redis against the contract, and what each promises besides."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress

import pytest
import redis.asyncio

from streamscribe.core.errors import InternalError, LeaseLost
from streamscribe.core.ids import SessionId
from streamscribe.store.memory_sessions import MemorySessions
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.redis_server import redis_server
from tests.contracts.redis_time import pass_time
from tests.contracts.session_seats import SeatContract
from tests.contracts.session_store import (
    KEEP_S,
    LEASE_S,
    S1,
    S2,
    SEAT_S,
    checkpoint,
    epochs,
    opened,
    seat,
)

TIMES = {"lease_ttl_s": LEASE_S, "seat_ttl_s": SEAT_S, "keep_s": KEEP_S}
PATIENT_S = 50.0


class TestMemorySessions(SeatContract):
    @pytest.fixture
    async def store(self):
        self.now = 1000.0
        store = MemorySessions(**TIMES, clock=lambda: self.now)
        yield store
        store.check_integrity()
        await store.close()

    async def pass_time(self, seconds):
        self.now += seconds

    async def test_nothing_is_left_of_sessions_that_nobody_speaks_of(self, store):
        for number in range(50):
            await store.claim(SessionId(f"w{number}"), "w1")
            await store.enter(seat(f"g{number}"), max_sessions=100)
        self.now += KEEP_S
        assert (await store.sessions(1)).total == 0
        store.check_integrity()


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@asynccontextmanager
async def client_of(url):
    client = redis.asyncio.Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def sessions_of(url, **wishes):
    store = RedisSessions(url, **{**TIMES, "timeout_s": PATIENT_S, **wishes})
    try:
        yield store
    finally:
        await store.close()


class TestRedisSessions(SeatContract):
    @pytest.fixture
    async def store(self, redis_url):
        self.url = redis_url
        async with client_of(redis_url) as self.client:
            await self.client.flushall()
            await self.client.set("somebody else's", "1")
            async with sessions_of(redis_url) as store:
                yield store
            assert await self.client.get("somebody else's") == b"1"

    async def pass_time(self, seconds):
        await pass_time(self.client, seconds)

    async def test_law_2_no_epoch_comes_again_though_redis_has_lost_everything(self, store):
        old = await store.claim(S1, "w1")
        await self.client.delete(*await self.client.keys("streamscribe:*"))
        await self.client.script_flush()
        assert await store.renew([old]) == [None]
        with pytest.raises(LeaseLost):
            await store.save(old, opened=opened())
        assert (await store.claim(S1, "w2")).epoch > old.epoch

    async def test_law_2_no_epoch_comes_again_though_the_clock_of_redis_is_set_back(self, store):
        future = 2**52
        await self.client.set("streamscribe:epoch", future)
        assert (await store.claim(S1, "w1")).epoch == future + 1
        assert (await store.claim(S2, "w1")).epoch == future + 2

    async def test_law_2_where_a_failover_has_lost_the_last_claim_its_owner_writes_nothing(self, store):
        await store.claim(S1, "w1")
        await self.pass_time(LEASE_S)
        replica = await self.client.hgetall(_S1_KEY)
        lost = await store.claim(S1, "w2")
        await self.client.hset(_S1_KEY, mapping=replica)
        again = await store.claim(S1, "w3")
        assert again.epoch == lost.epoch
        assert epochs(await store.renew([lost, again])) == [None, again.epoch]
        await store.release(lost)
        for write in store.save(lost, opened=opened()), store.forget(lost):
            with pytest.raises(LeaseLost):
                await write
        await store.save(again, opened=opened())

    async def test_an_owners_lease_ends_for_itself_no_later_than_for_others(self, store):
        now = 50.0
        async with sessions_of(self.url, clock=lambda: now) as mine:
            lease = await mine.claim(S1, "w1")
            assert lease.expires_at == 50 + LEASE_S
            now = 55.0
            (lease,) = await mine.renew([lease])
            assert lease.expires_at == 55 + LEASE_S

    async def test_two_processes_see_the_same(self, store):
        async with sessions_of(self.url) as other:
            lease = await store.claim(S1, "w1")
            await store.save(lease, opened=opened())
            assert await other.load(S1) == opened()
            with pytest.raises(LeaseLost):
                await other.claim(S1, "w2")
            await store.enter(seat(), max_sessions=1)
            assert (await other.session(S1)).owner == "w1"

    async def test_everything_but_the_highest_epoch_has_an_end(self, store):
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened(), checkpoint=checkpoint(1))
        await store.enter(seat(), max_sessions=1, max_per_minute=5)
        await self.pass_time(KEEP_S)
        await store.claim(S2, "w1")
        assert sorted(await self.client.keys("streamscribe:*")) == [
            *(b"streamscribe:epoch", b"streamscribe:session:s2", b"streamscribe:sessions")
        ]
        assert await self.client.zcard("streamscribe:sessions") == 1

    async def test_law_10_neither_audio_nor_text_nor_a_key_has_a_place_in_a_record(self, store):
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened(), checkpoint=checkpoint(1))
        await store.enter(seat(), max_sessions=1)
        assert {name.decode() for name in await self.client.hkeys("streamscribe:session:s1")} == {
            *("since_us", "epoch", "first_epoch", "owner", "lease_end_us", "tenant", "called", "gateway", "stage"),
            *("received_ms", "processed_ms", "told_us", "opened", "checkpoint", "at", "skip", "checkpoint_ms"),
            *("models", "saved_us"),
        }

    async def test_a_session_that_another_version_saved_is_told(self, store):
        lease = await store.claim(S1, "w1")
        await store.save(lease, opened=opened(), checkpoint=checkpoint(1))
        for field, value in ("checkpoint", b"\x93\x7f\x01"), ("opened", await self.client.hget(_S1_KEY, "checkpoint")):
            await self.client.hset(_S1_KEY, field, value)
            with pytest.raises(InternalError, match="not known here"):
                await store.load(S1)

    async def test_no_more_connections_than_allowed_and_who_waits_has_its_turn(self, store):
        async with sessions_of(self.url, max_connections=3) as few:
            before = await self.client.info("clients")
            await asyncio.gather(*(few.claim(SessionId(f"s{number}"), "w1") for number in range(100)))
            after = await self.client.info("clients")
            assert after["connected_clients"] - before["connected_clients"] <= 3

    async def test_calls_that_are_given_up_leave_no_answer_for_others_and_no_connection_lost(self, store):
        async with sessions_of(self.url, max_connections=2) as few:
            for round_ in range(60):
                name = SessionId(f"s{round_}")
                tasks = [asyncio.create_task(few.claim(name, "w1")) for _ in range(4)]
                for _ in range(round_ % 12):
                    await asyncio.sleep(0)
                for task in tasks[:3]:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert (await few.session(name)).session_id == name
                assert (await few.claim(name, "w1")).session_id == name
            assert few.counts().failures == 0


_S1_KEY = "streamscribe:session:s1"


async def _pid(url):
    async with client_of(url) as client:
        return (await client.info("server"))["process_id"]


def _calls(store, lease):
    """One call of each method."""
    return (
        *(store.claim(S1, "w1"), store.renew([lease]), store.release(lease), store.save(lease), store.load(S1)),
        *(store.note(lease, 1), store.abandon([lease], 1)),
        *(store.forget(lease), store.enter(seat(), max_sessions=1), store.keep([seat()]), store.leave(seat())),
        *(store.ticket(S1), store.sessions(1), store.session(S1)),
    )


@pytest.mark.parametrize("adapter", ["memory", "redis"])
async def test_law_2_owners_that_come_freeze_and_go_on_by_chance_never_believe_to_be_owners_at_once(adapter, redis_url):
    times = {**TIMES, "lease_ttl_s": 0.05}
    stores = [MemorySessions(**times)] * 5
    if adapter == "redis":
        async with client_of(redis_url) as client:
            await client.flushall()
        stores = [RedisSessions(redis_url, **times, timeout_s=PATIENT_S) for _ in range(5)]
    ends: dict[str, float] = {}
    epochs_given: list[int] = []
    chance = random.Random(7)

    async def live(name, store):
        for _ in range(12):
            try:
                lease = await store.claim(S1, name)
            except LeaseLost as lost:
                await asyncio.sleep(lost.retry_after_s * chance.random())
                continue
            assert max((end for other, end in ends.items() if other != name), default=0.0) <= time.monotonic()
            ends[name] = lease.expires_at
            epochs_given.append(lease.epoch)
            while chance.random() < 0.8:
                await asyncio.sleep(chance.choice([0, 0.01, 0.04, 0.07]))
                newest = max(epochs_given)
                with suppress(LeaseLost):
                    await store.save(lease, checkpoint=checkpoint(1))
                    assert lease.epoch >= newest
                (renewed,) = await store.renew([lease])
                if renewed is not None:
                    lease, ends[name] = renewed, renewed.expires_at
            if chance.random() < 0.5:
                ends.pop(name)
                await store.release(lease)

    try:
        await asyncio.gather(*(live(f"w{number}", store) for number, store in enumerate(stores)))
    finally:
        for store in stores:
            await store.close()
    assert len(set(epochs_given)) > 2  # fewer where the machine is busy


WORKER = """
import asyncio, sys
from streamscribe.core.errors import LeaseLost
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.session_store import S1, checkpoint, opened

async def main():
    store = RedisSessions(sys.argv[1], lease_ttl_s=0.3, seat_ttl_s=1, keep_s=60, timeout_s=20)
    while True:
        try:
            lease = await store.claim(S1, "frozen")
        except LeaseLost as lost:
            await asyncio.sleep(0.02)
            continue
        await store.save(lease, opened=opened())
        print(lease.epoch, flush=True)
        try:
            while True:
                await store.save(lease, checkpoint=checkpoint(1))
                (lease,) = [renewed or lease for renewed in await store.renew([lease])]
        except LeaseLost:
            print("lost", store.counts().fenced, flush=True)

asyncio.run(main())
"""


async def test_law_2_a_worker_that_was_frozen_past_its_lease_writes_nothing(redis_url):
    async with client_of(redis_url) as client, sessions_of(redis_url, lease_ttl_s=0.3) as store:
        await client.flushall()
        worker = subprocess.Popen([sys.executable, "-c", WORKER, redis_url], stdout=subprocess.PIPE, text=True)
        try:
            for round_ in range(1, 6):
                epoch = int(await asyncio.to_thread(worker.stdout.readline))
                worker.send_signal(signal.SIGSTOP)
                mine = await _once_it_is_free(store)
                assert mine.epoch == epoch + 1
                await client.hdel(_S1_KEY, "checkpoint", "at", "skip")
                worker.send_signal(signal.SIGCONT)
                assert await asyncio.to_thread(worker.stdout.readline) == f"lost {round_}\n"
                assert (await store.load(S1)).checkpoint is None
                assert (await store.session(S1)).epoch == mine.epoch
                await store.release(mine)
        finally:
            worker.kill()
            worker.wait()
            worker.stdout.close()


async def _once_it_is_free(store):
    while True:
        try:
            return await store.claim(S1, "successor")
        except LeaseLost as lost:
            await asyncio.sleep(lost.retry_after_s)
