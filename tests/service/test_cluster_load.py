"""A cluster that is asked for more than it can do, and what is asked of all its workers at once."""

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import httpx
import pytest

from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from tests.service.cluster_kit import Cluster, Role, cluster
from tests.service.kit import cut, noise_speech

pytestmark = pytest.mark.timeout(150)

PACKET_BYTES = 6400
SPEECH = noise_speech(9000, bursts=6)
WORKERS, SPEAKERS = 2, 40


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A final takes 0.4 s and none shares its step: each worker has time for five or six who say one every 2.2 s."""
    slow = {
        "model.fake_cost_ms": "400",
        "model.max_batch_size": "1",
        "limits.max_newcomers": "4",
        "limits.max_lag_ms": "1000",
    }
    with cluster(tmp_path_factory.mktemp("cluster"), **slow) as made:
        yield made


@pytest.fixture(scope="module")
def workers(running: Cluster) -> list[Role]:
    started = [running.worker() for _ in range(WORKERS)]
    while sum(figure(worker, "streamscribe_bus_partitions") == 8 / WORKERS for worker in started) < WORKERS:
        time.sleep(0.1)
    return started


@pytest.fixture(scope="module")
def gateways(running: Cluster, workers: list[Role]) -> list[Role]:
    made = [running.gateway(), running.gateway()]
    while any(figure(gateway, "streamscribe_known_workers") < WORKERS for gateway in made):
        time.sleep(0.1)
    return made


def figure(role: Role, name: str) -> float:
    text = httpx.get(f"{role.url}/metrics", timeout=None).text
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))


async def speak(gateway: Role, refused: list[ServerError]) -> bool:
    """Whether a client that speaks in real time was let in; then it was heard to its end."""
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(NativeClient(gateway.websocket))
        except ServerError as error:
            refused.append(error)
            return False

        async def say() -> None:
            for packet in cut(SPEECH, PACKET_BYTES):
                await client.send(packet)
                await asyncio.sleep(0.2)
            await client.end()

        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(say())
        async for _ in client:
            pass
    return True


async def test_gateways_refuse_by_the_load_of_workers_what_none_could_do_and_those_let_in_are_heard(
    gateways: list[Role], workers: list[Role]
) -> None:
    refused: list[ServerError] = []

    async def arrive(number: int) -> bool:
        await asyncio.sleep(number * 0.35)
        return await speak(gateways[number % 2], refused)

    heard = await asyncio.gather(*(arrive(number) for number in range(SPEAKERS)))
    assert sum(heard) >= 8
    assert len(refused) == SPEAKERS - sum(heard) >= 6
    assert {(error.error.name, error.error.retry) for error in refused} == {("overloaded", "after")}
    assert all(error.error.retry_after_ms for error in refused)
    assert sum(figure(gateway, "streamscribe_shed_sessions_total") for gateway in gateways) == len(refused)


async def test_what_a_tenant_is_kept_of_is_purged_in_all_workers_through_any_gateway(
    gateways: list[Role], workers: list[Role]
) -> None:
    async with httpx.AsyncClient(timeout=None) as http:
        told = (await http.get(f"{gateways[0].url}/v1/cache")).json()
        assert told["levels"]
        answers = [(await http.delete(f"{gateway.url}/v1/cache")).json() for gateway in gateways]
    assert [answer["workers"] for answer in answers] == [WORKERS, WORKERS]


async def test_a_gateway_that_is_told_to_reload_goes_on_and_workers_replace_what_changed(
    gateways: list[Role], workers: list[Role]
) -> None:
    for role in (*gateways, *workers):
        role.process.send_signal(signal.SIGHUP)
    await asyncio.sleep(0.5)
    async with httpx.AsyncClient(timeout=None) as http:
        for role in (*gateways, *workers):
            assert (await http.get(f"{role.url}/healthz")).status_code == 200
