"""A cluster whose Redis is frozen or begins anew, and whose worker is frozen past its lease: all hear the same."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from streamscribe.bench.kafka_cluster import Foreign
from streamscribe.bootstrap.cluster.services import free_port, redis_command
from streamscribe.client.errors import ServerError
from tests.contracts.kafka_broker import kafka_broker
from tests.service.cluster_kit import Cluster, Role
from tests.service.kit import noise_speech
from tests.service.test_cluster import Told, heard_by, settled, speaking

pytestmark = pytest.mark.timeout(150)

LEASE_S = 1.0
SPEECH = [noise_speech(9000 + number) for number in range(6)]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    """In memory only: when it was killed it knows nothing."""
    port = free_port()
    running = Foreign(redis_command(port), port, tmp_path_factory.mktemp("redis"))
    yield running
    running.kill()


@pytest.fixture(scope="module")
def running(redis: Foreign, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    more = {"store.lease_ttl_s": str(LEASE_S), "store.timeout_s": "0.5"}
    with kafka_broker(tmp_path_factory.mktemp("broker")) as broker:
        made = Cluster(broker, f"redis://{redis.address}/0", more)
        told = made.run("topics", "ensure")
        assert told.returncode == 0, told.stderr
        yield made
        made.close()


@pytest.fixture(scope="module")
def gateway(running: Cluster) -> Role:
    return running.gateway()


@pytest.fixture(scope="module")
def workers(running: Cluster) -> list[Role]:
    """Two, which have shared the partitions."""
    started = [running.worker(), running.worker()]
    settled(started)
    return started


@pytest.mark.parametrize("how", ["frozen", "killed"])
async def test_streams_go_on_while_redis_is_away_and_new_ones_are_served_when_it_is_back(
    how: str, redis: Foreign, gateway: Role, workers: list[Role]
) -> None:
    alone = await heard_by(gateway, SPEECH)
    assert all(len(told) >= 3 for told in alone)
    talking = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    await asyncio.sleep(1.0)
    async with redis.frozen() if how == "frozen" else redis.killed():
        await asyncio.sleep(3 * LEASE_S)
    assert await talking == alone
    assert await served_again(gateway) == alone


async def served_again(gateway: Role) -> list[Told]:
    """What newcomers hear; until the workers have told an empty Redis of themselves, they are told to come again."""
    while True:
        try:
            return await heard_by(gateway, SPEECH)
        except ServerError as refused:
            if refused.error.retry != "after":
                raise
            await asyncio.sleep(0.2)


async def test_a_worker_that_was_frozen_past_its_lease_changes_nothing_when_it_wakes(
    gateway: Role, workers: list[Role]
) -> None:
    """R4."""
    alone = await heard_by(gateway, SPEECH)
    talking = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    await asyncio.sleep(1.0)
    workers[0].process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(3 * LEASE_S)
    workers[0].process.send_signal(signal.SIGCONT)
    assert await talking == alone
    await asyncio.to_thread(settled, workers)
    assert await heard_by(gateway, SPEECH) == alone
