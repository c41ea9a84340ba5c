"""How gateways of a cluster let sessions go and take them, with the store and the log that they share."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
import redis

from streamscribe.bootstrap.cluster.gateway import ClusterGateway
from streamscribe.core.errors import BusUnavailable, LeaseLost, ModelUnavailable, SessionNotFound, StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.gateway import drain as drain_module
from streamscribe.gateway import unclaimed
from streamscribe.gateway.drain import drain
from streamscribe.settings import GatewaySettings
from streamscribe.wire.session_mark import decode_mark
from tests.service.cluster_kit import Cluster, cluster
from tests.service.gateways_here import TENANT, Client, frozen_redis, gateway_here, spoken
from tests.service.kit import cut, noise_speech

pytestmark = pytest.mark.timeout(150)

SILENCE = bytes(48_000)
"""So long that an endpoint follows what was said."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    more = {"kafka.result_partitions": "16", "store.timeout_s": "0.5"}
    with cluster(tmp_path_factory.mktemp("cluster"), **more) as made:
        made.worker()
        yield made


@pytest.fixture
async def elsewhere(running: Cluster) -> AsyncIterator[ClusterGateway]:
    async with gateway_here(running) as parts:
        yield parts


async def ends_well(client: Client) -> bool:
    """Says one word more, and ends."""
    await client.speak(bytes(6400))
    return await client.ends_well()


@asynccontextmanager
async def gateway_that_fails(running: Cluster) -> AsyncIterator[ClusterGateway]:
    """At the end of the block the results can be read no more."""
    with suppress(BaseExceptionGroup):
        async with gateway_here(running) as parts:
            yield parts
            parts.hub._bus._reader._fail(BusUnavailable())  # type: ignore[attr-defined]
            await asyncio.Event().wait()


async def test_a_gateway_that_can_read_no_results_leaves_its_sessions_to_another(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    async with gateway_that_fails(running) as failing:
        client, lost = await spoken(failing), await spoken(failing)
        lost.live.detach()  # type: ignore[union-attr]
    for one in (client, lost):
        await one.come_to(elsewhere)
        assert await ends_well(one)


async def test_a_session_that_comes_when_its_new_gateway_has_let_all_go_goes_to_a_third(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    async with gateway_here(running) as first:
        client = await spoken(first)
        client.live.detach()  # type: ignore[union-attr]
        async with gateway_here(running) as second:
            coming = asyncio.ensure_future(client.come_to(second))
            await asyncio.sleep(0)
            await second.hub.let_all_go(within_s=1.0)
            with pytest.raises(LeaseLost):
                await coming
            assert len(second.hub) == 0
            second.hub.check_integrity()
        await client.come_to(elsewhere)
        assert await ends_well(client)


async def test_a_session_whose_ticket_is_late_gets_one_before_it_is_let_go(
    running: Cluster, elsewhere: ClusterGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "FINALS_SHARE", 0.9)  # time for it however busy this machine is
    async with gateway_here(running, store__admit_when_away="true") as first:
        with frozen_redis(running.redis_url):
            client = await spoken(first)
        await drain(first.hub, GatewaySettings(drain_timeout_s=20, drain_grace_s=0))
        await client.closed.wait()
    assert isinstance(client.error, LeaseLost)
    await client.come_to(elsewhere)
    assert await ends_well(client)


async def test_a_session_without_a_ticket_is_told_that_it_ends_and_is_not_left_to_nobody(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    async with gateway_here(running, store__admit_when_away="true") as first:
        with frozen_redis(running.redis_url):
            client = await spoken(first)
            await drain(first.hub, GatewaySettings(drain_timeout_s=2, drain_grace_s=0))
            await client.closed.wait()
            assert client.errors() == ["draining"]
    with pytest.raises(SessionNotFound):
        await client.come_to(elsewhere)


async def test_a_session_is_resumed_where_it_still_is_while_redis_is_away(running: Cluster) -> None:
    async with gateway_here(running) as first:
        client = await spoken(first)
        await client.owned()
        with frozen_redis(running.redis_url):
            await client.come_to(first)
            assert await ends_well(client)


async def test_a_session_that_no_worker_can_take_while_redis_is_away_is_told_so(
    running: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unclaimed, "PATIENCE_S", 1.0)
    async with gateway_here(running, store__admit_when_away="true", store__seat_ttl_s="1") as first:
        owned = await spoken(first)
        await owned.owned()
        with frozen_redis(running.redis_url):
            client = await spoken(first)
            await client.closed.wait()
            assert client.errors() == ["store_unavailable"]
            await owned.speak(bytes(6400))
            assert not owned.closed.is_set()
        assert await ends_well(owned)


async def test_a_gateway_without_a_worker_runs_lets_nobody_in_and_is_not_ready_until_there_is_one(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    assert elsewhere.waiting_for() == []
    other_base = running.redis_url.rpartition("/")[0] + "/1"  # where no worker tells anything
    async with gateway_here(running, store__redis_url=other_base) as lonely:
        await lonely.wait_ready()
        assert lonely.waiting_for() == ["workers"]
        with pytest.raises(ModelUnavailable):
            Client().open(lonely)
        with redis.Redis.from_url(other_base) as server, redis.Redis.from_url(running.redis_url) as told:
            while lonely.waiting_for():  # a worker tells the same there
                for key in ("streamscribe:workers", "streamscribe:worker-texts"):
                    server.restore(key, 5000, told.dump(key), replace=True)
                await asyncio.sleep(0.1)


async def refused(gateway: ClusterGateway) -> str:
    """Why newcomers are not let in any more; those that are go again."""
    while True:
        silent = Client()
        try:
            silent.open(gateway)
        except StreamScribeError as error:
            return error.code
        silent.live.abandon()  # type: ignore[union-attr]
        await asyncio.sleep(0.2)


async def test_who_is_let_in_as_redis_goes_away_is_heard_when_it_is_back_and_who_comes_later_is_refused(
    running: Cluster,
) -> None:
    async with gateway_here(running, store__seat_ttl_s="3") as first:
        with frozen_redis(running.redis_url):
            client = await spoken(first)
            await client.say(noise_speech(31, bursts=1))
            await client.acked()
            assert await refused(first) == "store_unavailable"
            await asyncio.sleep(6)  # as long as many outages last
        assert client.errors() == []
        assert await client.ends_well()
        assert len(client.finals()) == 1


async def marked(gateway: ClusterGateway, client: Client) -> None:
    """Returns when the store knows a place of the session behind its first result, and no other.

    No text may be open then: a session that stops in the middle of a voice has no such place.
    """
    register = gateway.hub._register
    while True:
        ticket = await register._store.ticket(client.live.bus_id)  # type: ignore[attr-defined, union-attr]
        first = ticket.places[0].mark
        alone = ticket.gateway == register._gateway and len(ticket.places) == 1  # type: ignore[attr-defined]
        if alone and first and decode_mark(first).downlink.results.last_version:
            return
        await asyncio.sleep(0.1)


async def test_law_3_a_session_is_read_from_a_mark_near_its_present_by_each_gateway_that_takes_it(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    near = {"limits__resume_window_s": "1.5", "limits__slow_reader_timeout_s": "0.5"}
    said = [noise_speech(50 + number, bursts=2) + SILENCE for number in range(4)]
    undisturbed, client = Client(), Client()
    undisturbed.open(elsewhere)
    alone = asyncio.ensure_future(undisturbed.say(b"".join(said)))
    async with gateway_here(running, **near) as first, gateway_here(running, **near) as second:
        client.open(first)
        await client.say(said[0])
        await marked(first, client)
        await client.come_to(second)
        await client.say(said[1])
        await marked(second, client)
        await client.come_to(first)
        await client.say(said[2])
        await client.come_to(elsewhere)
    await client.say(said[3])
    await alone
    assert await client.ends_well()
    assert await undisturbed.ends_well()
    assert client.finals() == undisturbed.finals()
    assert len(client.finals()) == 8


async def test_a_client_that_lacks_results_from_before_the_mark_finds_no_session_and_costs_it_nothing(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    near = {"limits__resume_window_s": "1", "limits__slow_reader_timeout_s": "0.5"}
    async with gateway_here(running, **near) as first:
        client = Client()
        client.open(first)
        await client.say(noise_speech(3, bursts=2) + SILENCE)
        await marked(first, client)
        with pytest.raises(SessionNotFound):
            await elsewhere.hub.resume_anywhere(TENANT, replace(client.resume(), last_version=0), Client())
        assert await client.ends_well()


async def test_a_session_can_be_taken_by_another_gateway_after_redis_came_back_empty(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    async with gateway_here(running, store__seat_ttl_s="1") as first:
        client = await spoken(first)
        with redis.Redis.from_url(running.redis_url) as server:
            server.flushall()
        store = first.hub._register._store  # type: ignore[attr-defined]
        while await store.ticket(client.live.bus_id) is None:  # type: ignore[union-attr]
            await asyncio.sleep(0.1)
    await client.come_to(elsewhere)
    assert await ends_well(client)


async def test_a_tenant_begins_so_many_sessions_a_minute_at_all_gateways_together(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    few = replace(TENANT, tenant_id=TenantId("few"), max_new_sessions_per_min=3)
    async with gateway_here(running) as first:
        clients = [await spoken(gateway, few) for gateway in (first, elsewhere, first)]
        late = Client(few)
        late.open(elsewhere)
        await late.speak(bytes(320))
        await late.closed.wait()
        assert late.errors() == ["quota_exceeded"]
        await clients[0].come_to(elsewhere)
        assert [await ends_well(client) for client in clients] == [True, True, True]


async def test_a_session_of_a_gateway_that_drains_is_let_go_at_its_next_endpoint_not_before(
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    async with gateway_here(running) as first:
        client = Client()
        client.open(first)
        await client.say(noise_speech(70, bursts=1)[:48_000])
        first.hub.draining = True
        first.hub.go_away(30)
        rest = list(cut(noise_speech(70, bursts=1)[48_000:], 6400))
        while not client.closed.is_set():  # which may be at any time behind the endpoint
            await client.say(rest.pop(0) if rest else bytes(6400))
        assert isinstance(client.error, LeaseLost)
        assert client.finals()
    await client.come_to(elsewhere)
    assert await client.ends_well()
