"""What sessions in Redis promise while it is away, stands still, is full or lets nobody in."""

import asyncio
import os
import signal
from contextlib import contextmanager

import pytest

from streamscribe.bootstrap.sessions import explain
from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import LeaseEpoch
from streamscribe.ports import Kept, Lease
from tests.contracts.redis_server import free_port, redis_server
from tests.contracts.session_store import S1, S2, checkpoint, epochs, opened, seat
from tests.contracts.test_session_store_contract import _S1_KEY, _calls, _pid, client_of, sessions_of


@contextmanager
def told_to_operators(trouble):
    """Calls fail with a text for clients, which says nothing of Redis; its cause is for who runs it."""
    with pytest.raises(StoreUnavailable, match=f"^{StoreUnavailable.default_message}$") as refused:
        yield refused
    assert explain(refused.value) == trouble


async def test_a_redis_that_is_away_is_told_by_each_call_and_used_again_when_it_is_back(tmp_path):
    port = free_port()
    async with sessions_of(f"redis://127.0.0.1:{port}/0") as store:
        with redis_server(tmp_path, port=port):
            lease = await store.claim(S1, "w1")
        for call in _calls(store, lease):
            with told_to_operators("Redis cannot be reached") as refused:
                await call
            assert (refused.value.http_status, refused.value.retry_after_s) == (503, 1.0)
        with pytest.raises(
            StoreUnavailable, match=rf"^Redis cannot be reached \(127\.0\.0\.1:{port}\); is it started\? type: "
        ):
            await store.check()
        assert store.counts().failures == 15
        with redis_server(tmp_path, port=port):
            assert (await store.claim(S1, "w1")).epoch > lease.epoch


async def test_a_frozen_redis_is_told_in_time_blocks_nobody_and_is_used_again(tmp_path):
    with redis_server(tmp_path) as url:
        pid = await _pid(url)
        async with sessions_of(url, timeout_s=1.0, max_connections=2) as store:
            lease = await _until_it_answers(lambda: store.claim(S1, "w1"))
            os.kill(pid, signal.SIGSTOP)
            try:
                calls = asyncio.gather(*(_calls(store, lease)), return_exceptions=True)
                turns = 0
                while not calls.done():
                    turns += 1
                    await asyncio.sleep(0)
                assert turns > 100
                assert {explain(error) for error in await calls} == {"Redis does not answer in time"}
            finally:
                os.kill(pid, signal.SIGCONT)
            await _until_it_answers(store.check)
            assert (await _until_it_answers(lambda: store.session(S1))).session_id == S1


async def _until_it_answers(ask):
    """What the store says, once it says something: on a busy machine a short time-out may pass by chance."""
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(0.01)


async def test_where_redis_is_full_nobody_enters_and_who_is_there_goes_on(tmp_path):
    with redis_server(tmp_path, "--maxmemory-policy", "noeviction") as url:
        async with client_of(url) as client, sessions_of(url) as store:
            await store.enter(seat(), max_sessions=5)
            lease = await store.claim(S1, "w1")
            await store.save(lease, opened=opened())
            await client.config_set("maxmemory", 1)
            with told_to_operators("Redis is full"):
                await store.enter(seat("s2"), max_sessions=5)
            with pytest.raises(StoreUnavailable, match=r"^Redis is full \(.*\); give it more memory"):
                await store.check()
            assert epochs(await store.renew([lease])) == [lease.epoch]
            await store.save(lease, checkpoint=checkpoint(5))
            assert await store.keep([seat()]) == [Kept.NO_TICKET]
            await store.release(lease)
            lease = await store.claim(S1, "w2")
            assert (await store.load(S1)).checkpoint == checkpoint(5)
            assert (await store.sessions(5)).total == 1
            await store.forget(lease)
            await store.leave(seat())
            assert await store.session(S1) is None


async def test_a_replica_is_no_store_though_it_answers_and_shows_the_sessions_that_it_has(tmp_path):
    with redis_server(tmp_path) as url:
        async with client_of(url) as client, sessions_of(url) as store:
            await store.check()
            await store.enter(seat(), max_sessions=5)
            await client.replicaof("127.0.0.1", free_port())
            for ask in store.check, lambda: store.enter(seat("s2"), max_sessions=5):
                with pytest.raises(StoreUnavailable) as refused:
                    await ask()
            assert explain(refused.value) == "Redis is a replica, which takes no writes"
            with pytest.raises(StoreUnavailable, match=r"^Redis is a replica.*; name the primary in store\.redis_url"):
                await store.check()
            assert [view.session_id for view in (await store.sessions(5)).sessions] == [S1]
            await client.replicaof("NO", "ONE")
            await store.check()


async def test_a_redis_that_wants_a_password_is_told_without_the_one_that_was_tried(tmp_path):
    with redis_server(tmp_path, "--requirepass", "sesame") as url:
        for address in url, url.replace("//", "//:hunter2@"):
            async with sessions_of(address) as store:
                for call in _calls(store, Lease(S1, LeaseEpoch(1), "w1", 0.0)):
                    with told_to_operators("Redis refuses the user or password of store.redis_url"):
                        await call
                with pytest.raises(StoreUnavailable, match=r"user or password of store\.redis_url") as refused:
                    await store.check()
                assert "hunter2" not in str(refused.value)
        async with sessions_of(url.replace("//", "//:sesame@")) as store:
            await store.check()


async def test_a_key_that_somebody_else_has_taken_fails_what_needs_it_and_nothing_more(tmp_path):
    with redis_server(tmp_path) as url:
        async with client_of(url) as client, sessions_of(url) as store:
            await client.set(_S1_KEY, "mine")
            with told_to_operators("Redis refused what the session store asked"):
                await store.claim(S1, "w1")
            assert (await store.claim(S2, "w1")).session_id == S2


async def test_a_new_connection_asks_at_once_what_it_is_for(tmp_path):
    """Each answer that it waits for before takes of the call's time, and longest while models load."""
    with redis_server(tmp_path) as url:
        async with sessions_of(url) as store, client_of(f"{url}?protocol=2") as client:
            await store.check()
            asked = await client.info("commandstats")
    assert asked["cmdstat_set"]["calls"] == 1
    assert "cmdstat_hello" not in asked
