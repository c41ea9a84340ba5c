"""Gateways and workers as processes of their own, a real broker and Redis: who listens hears no difference."""

import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import httpx
import pytest
import redis

from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from streamscribe.wire.native_server import ClosedMessage, ErrorMessage, ResultMessage, ServerWire
from tests.service.cluster_kit import Cluster, Role, cluster
from tests.service.kit import cut, noise_speech, session

pytestmark = pytest.mark.timeout(150)

PACKET_BYTES = 6400
SPEECH = [noise_speech(7000 + number) for number in range(6)]

Told = list[tuple[int, int, str, int, int]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(running: Cluster) -> Role:
    return running.gateway()


@pytest.fixture(scope="module")
def crew() -> list[Role]:
    """The workers, those too that have ended."""
    return []


@pytest.fixture
def workers(running: Cluster, crew: list[Role]) -> list[Role]:
    """Two that live when a test begins, and have shared the partitions: those of the test before, or new ones."""
    crew[:] = [worker for worker in crew if worker.process.poll() is None]
    while len(crew) < 2:
        crew.append(running.worker())
    settled(crew)
    return crew


def partitions(worker: Role) -> float:
    text = httpx.get(f"{worker.url}/metrics", timeout=None).text
    found = re.search(r"^streamscribe_bus_partitions (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def finals(messages: Iterable[ServerWire]) -> Told:
    """Of a session without an error and with a regular end, whose versions grow; those of both passes."""
    said = list(messages)
    assert not [message for message in said if isinstance(message, ErrorMessage)]
    assert isinstance(said[-1], ClosedMessage)
    results = [message for message in said if isinstance(message, ResultMessage)]
    versions = [result.version for result in results]
    assert versions == sorted(set(versions))
    return sorted((r.segment_id, r.pass_, r.text, r.start_ms, r.end_ms) for r in results if r.is_final)


async def heard_by(gateway: Role, speech: Sequence[bytes] = SPEECH) -> list[Told]:
    told = await asyncio.gather(*(session(gateway.websocket, cut(pcm, PACKET_BYTES)) for pcm in speech))
    return [finals(messages) for messages in told]


async def speaking(gateway: Role, pcm: bytes, packet_s: float = 0.1) -> Told:
    """What a client hears that speaks at twice real time."""
    async with NativeClient(gateway.websocket) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for packet in cut(pcm, PACKET_BYTES):
                await client.send(packet)
                await asyncio.sleep(packet_s)
            await client.end()

        tasks.create_task(speak())
        return finals([message async for message in client])


async def a_word(gateway: Role) -> None:
    async with NativeClient(gateway.websocket) as client:
        await client.send(SPEECH[0][:PACKET_BYTES])
        async for _ in client:
            pass


def settled(workers: Sequence[Role]) -> None:
    """Returns when the group has shared its partitions: the test broker never ends a join that another crosses."""
    share = 8 / len(workers)
    while any(partitions(worker) != share for worker in workers):
        time.sleep(0.1)


async def test_workers_that_are_killed_lose_double_and_change_no_final(
    running: Cluster, gateway: Role, workers: list[Role]
) -> None:
    alone = await heard_by(gateway)
    assert all(len(told) >= 3 for told in alone)
    talking = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    await asyncio.sleep(1.0)
    workers[0].kill()
    workers.append(await asyncio.to_thread(running.worker))
    await asyncio.to_thread(settled, workers[1:])
    talking_later = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    await asyncio.sleep(1.0)
    workers[1].kill()
    assert await talking == alone
    assert await talking_later == alone


async def test_a_worker_that_is_told_to_stop_hands_its_sessions_over_and_ends_well(
    gateway: Role, workers: list[Role]
) -> None:
    alone = await heard_by(gateway)
    talking = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    await asyncio.sleep(1.0)
    assert await workers[0].stop() == 0
    assert await talking == alone


async def test_streams_go_on_after_the_broker_has_answered_nothing_for_a_while(
    running: Cluster, gateway: Role, workers: list[Role]
) -> None:
    alone = await heard_by(gateway)
    talking = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    await asyncio.sleep(0.5)
    with running.broker.frozen():
        await asyncio.sleep(1.5)
    assert await talking == alone


async def test_a_tenants_sessions_are_counted_over_all_gateways(
    running: Cluster, gateway: Role, workers: list[Role]
) -> None:
    patient = ("--set", "store.timeout_s=1")  # who is not answered in time counts for itself
    other = running.gateway("--set", "limits.max_tenant_sessions=2", *patient)
    async with NativeClient(gateway.websocket) as first, NativeClient(gateway.websocket) as second:
        for client in (first, second):
            await client.send(SPEECH[0][:PACKET_BYTES])
        with pytest.raises(ServerError, match="quota_exceeded"):
            await a_word(other)
    other.kill()


async def test_sessions_are_listed_for_the_engineer_on_call(
    running: Cluster, gateway: Role, workers: list[Role]
) -> None:
    async with NativeClient(gateway.websocket) as client:
        await client.send(SPEECH[0][:PACKET_BYTES])
        for _ in range(100):
            told = running.run("sessions", "list", "--json")
            assert told.returncode == 0, told.stderr
            owned = [one for one in json.loads(told.stdout)["sessions"] if one["owner"]]
            if any(one["stage"] == "streaming" for one in owned):
                break
            await asyncio.sleep(0.1)
        assert {one["tenant_id"] for one in owned} == {"default"}
        await client.end()
        async for _ in client:
            pass


async def test_a_gateway_is_ready_while_its_bus_and_its_store_answer(gateway: Role, workers: list[Role]) -> None:
    async with httpx.AsyncClient(timeout=None) as http:
        for role in (gateway, workers[0]):
            answer = await http.get(f"{role.url}/readyz")
            assert (answer.status_code, answer.json()["waiting_for"]) == (200, [])
        metrics = (await http.get(f"{workers[0].url}/metrics")).text
    assert "funasr_active_streams" in metrics


def test_a_gateway_that_is_told_to_stop_ends_well(running: Cluster) -> None:
    own = running.gateway()
    own.process.send_signal(signal.SIGTERM)
    assert own.process.wait() == 0


def test_a_gateway_starts_at_a_redis_that_takes_longer_for_each_answer_than_a_stream_may_wait(running: Cluster) -> None:
    with each_answer_takes(0.3, running.redis_url):
        own = running.gateway("--set", "store.timeout_s=0.01")
    own.kill()


@contextmanager
def each_answer_takes(seconds: float, redis_url: str) -> Iterator[None]:
    """The Redis answers nobody but in the moments between two pauses of so long."""
    over = threading.Event()

    def slow_down() -> None:
        with redis.Redis.from_url(redis_url) as admin:
            while not over.is_set():
                admin.client_pause(round(seconds * 1000))

    slowing = threading.Thread(target=slow_down)
    slowing.start()
    try:
        yield
    finally:
        over.set()
        slowing.join()


@pytest.mark.parametrize(
    ("role", "arguments"),
    [("gateway", ["--port=0", "--funasr-port=-1"]), ("worker", ["--profile=fake", "--health-port=0"])],
)
def test_without_a_broker_the_error_names_the_setting_and_what_to_do(
    role: str, arguments: list[str], running: Cluster
) -> None:
    nobody = Cluster(running.broker, running.redis_url, {"kafka.brokers": ""})
    told = nobody.run(role, *arguments)
    assert told.returncode != 0
    assert "kafka.brokers" in told.stderr
    assert "Traceback" not in told.stderr
