"""How a gateway of a cluster lets its sessions go: whatever ends it, they are somebody's or their client is told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from streamscribe.bootstrap.cluster.gateway import ClusterGateway
from streamscribe.core.errors import BusUnavailable, LeaseLost, SessionNotFound
from streamscribe.core.messages import Closed, End
from streamscribe.gateway.drain import drain
from streamscribe.settings import GatewaySettings
from tests.service.cluster_kit import Cluster, cluster
from tests.service.gateways_here import Client, frozen_redis, gateway_here, spoken

pytestmark = pytest.mark.timeout(150)


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
    assert client.live is not None
    await client.live.receive(End())
    await client.closed.wait()
    return isinstance(client.heard[-1], Closed)


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
    running: Cluster, elsewhere: ClusterGateway
) -> None:
    async with gateway_here(running, store__admit_when_away="true") as first:
        with frozen_redis(running.redis_url):
            client = await spoken(first)
        await drain(first.hub, GatewaySettings(drain_timeout_s=4, drain_grace_s=0))
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
        client.live.detach()  # type: ignore[union-attr]
        with frozen_redis(running.redis_url):
            await client.come_to(first)
            assert await ends_well(client)
