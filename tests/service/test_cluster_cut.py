"""One process of a cluster is cut off the network, broker and Redis, and comes back: who listens hears the same."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from streamscribe.client.native import NativeClient
from streamscribe.wire.native_server import ResumedMessage, ServerWire
from tests.contracts.kafka_broker import kafka_broker
from tests.contracts.redis_server import redis_server
from tests.service.cluster_kit import Cluster, Role
from tests.service.cut_proxy import CutProxy
from tests.service.kit import cut, noise_speech
from tests.service.test_cluster import PACKET_BYTES, finals, heard_by, settled, speaking

pytestmark = pytest.mark.timeout(240)

LEASE_S = 1.0
SILENCE_S = 3.0
SHORT = [noise_speech(9500 + number) for number in range(8)]
LONG = [noise_speech(9600 + number, bursts=9) for number in range(4)]
CUT_OFF = "to-be-cut-off"


@dataclass(frozen=True)
class Network:
    """A cluster's, in which one process can be cut off: it names itself to the broker, and has its own way to Redis."""

    cluster: Cluster
    to_broker: CutProxy
    to_redis: CutProxy
    flags: tuple[str, ...]
    """Of that process."""

    @contextmanager
    def cut(self) -> Iterator[None]:
        with self.to_broker.cut(), self.to_redis.cut():
            yield


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """All reach the broker by the proxy, which is what it advertises."""
    with closing(CutProxy(CUT_OFF.encode())) as to_broker, closing(CutProxy(b"")) as to_redis:
        address = f"127.0.0.1:{to_broker.port}"
        more = {"kafka.brokers": address, "store.lease_ttl_s": str(LEASE_S), "store.timeout_s": "0.5"}
        with kafka_broker(tmp_path, advertised=address) as broker, redis_server(tmp_path) as redis_url:
            to_broker.target, to_redis.target = urlsplit(f"//{broker.address}").port or 0, urlsplit(redis_url).port or 0
            made = Cluster(broker, redis_url, more)
            told = made.run("topics", "ensure")
            assert told.returncode == 0, told.stderr
            own = tmp_path / "own.yaml"
            own.write_text(f'kafka: {{options: {{"client.id": {CUT_OFF}}}}}')
            redis = f"store.redis_url=redis://127.0.0.1:{to_redis.port}/0"
            yield Network(made, to_broker, to_redis, ("--config", str(own), "--set", redis))
            made.close()


async def test_a_worker_that_is_cut_off_past_its_lease_loses_doubles_and_changes_nothing_and_serves_again(
    network: Network,
) -> None:
    """Its sessions go on at the other meanwhile; what it had on its way arrives when it is back, and is stale."""
    gateway, other = network.cluster.gateway(), network.cluster.worker()
    lonely = network.cluster.worker(*network.flags)
    settled([lonely, other])
    alone = await heard_by(gateway, [*SHORT, *LONG])
    assert all(len(told) >= 3 for told in alone)
    talking = [asyncio.create_task(speaking(gateway, pcm)) for pcm in (*SHORT, *LONG)]
    await asyncio.sleep(1.5)
    with network.cut():
        await asyncio.wait(talking[: len(SHORT)])
        await asyncio.sleep(2 * LEASE_S)
        assert {"bus", "store"} <= {*await waiting_for(lonely)}
    assert await asyncio.gather(*talking) == alone
    assert await waiting_for(lonely) == []
    await asyncio.to_thread(settled, [lonely, other])
    other.kill()
    assert await heard_by(gateway, SHORT) == alone[: len(SHORT)]


async def test_a_gateway_that_is_cut_off_leaves_its_clients_to_another_and_serves_again(network: Network) -> None:
    """Its clients hear nothing any more, and go on at the other one while it is away."""
    other, worker = network.cluster.gateway(), network.cluster.worker()
    lonely = network.cluster.gateway(*network.flags)
    settled([worker])
    alone = await heard_by(other, SHORT)
    talking = [asyncio.create_task(saying([lonely, other], pcm)) for pcm in SHORT]
    await asyncio.sleep(1.5)
    with network.cut():
        told = await asyncio.gather(*talking)
        assert await waiting_for(lonely) == ["bus", "store"]
    assert [finals(messages) for messages in told] == alone
    assert all(any(isinstance(message, ResumedMessage) for message in messages) for messages in told)
    while await waiting_for(lonely):
        await asyncio.sleep(0.1)
    assert await heard_by(lonely, SHORT) == alone


async def saying(gateways: Sequence[Role], pcm: bytes) -> list[ServerWire]:
    """What a client is told that begins at the first, and takes silence for its end."""
    urls = [one.websocket for one in gateways]
    async with NativeClient(urls, silence_timeout_s=SILENCE_S) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for packet in cut(pcm, PACKET_BYTES):
                await client.send(packet)
                await asyncio.sleep(0.1)
            await client.end()

        tasks.create_task(speak())
        return [message async for message in client]


async def waiting_for(role: Role) -> list[str]:
    """What does not answer it."""
    async with httpx.AsyncClient(timeout=None) as http:
        return sorted((await http.get(f"{role.url}/readyz")).json()["waiting_for"])
