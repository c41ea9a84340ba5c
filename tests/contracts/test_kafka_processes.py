"""Workers in processes of their own, which are killed and frozen; a real broker, a real Redis."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Finished
from streamscribe.settings import KafkaSettings
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES, Broker
from tests.contracts.kafka_worker_process import STILL_HERE_MS, redis_sessions
from tests.contracts.redis_server import redis_server
from tests.contracts.takeover import Ear, session

NAMES = [f"s{number}" for number in range(6)]
CHUNKS = 16


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """Of a Redis of its own: no session of another test is known there."""
    with redis_server(tmp_path) as url:
        yield url


class Cluster:
    """A gateway here, and two workers elsewhere of which each has a partition."""

    def __init__(self, kafka: KafkaSettings, redis_url: str) -> None:
        self.gateway = KafkaGatewayBus(kafka, 30, MAX_MESSAGE_BYTES, reply_to=0)
        self.ear = Ear()
        self.store = redis_sessions(redis_url)
        self.published = {name: list(session(name, CHUNKS)) for name in NAMES}
        self.workers: list[asyncio.subprocess.Process] = []
        self.partitions: dict[int, bytes] = {}
        self._watching: list[asyncio.Future[None]] = []
        self._command = ["-m", "tests.contracts.kafka_worker_process", kafka.model_dump_json(), redis_url]

    async def start(self) -> None:
        self.gateway.attach_gateway(self.ear)
        await self.gateway.start()
        for _ in range(2):
            worker = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, stdout=asyncio.subprocess.PIPE
            )
            self.workers.append(worker)
        self._watching = [asyncio.ensure_future(self._watch(worker)) for worker in self.workers]
        while sorted(self.partitions.values()) != [b"0\n", b"1\n"]:
            assert all(worker.returncode is None for worker in self.workers), "a worker has ended"
            await asyncio.sleep(0.02)

    async def _watch(self, worker: asyncio.subprocess.Process) -> None:
        assert worker.stdout is not None
        async for line in worker.stdout:
            self.partitions[worker.pid] = line

    async def publish(self, begin: int, end: int) -> None:
        for index in range(begin, end):
            for name in NAMES:
                await self.gateway.publish(self.published[name][index])

    async def all_told(self, begin: int, end: int) -> None:
        while not all(self.ear.progress(name) >= set(range(begin, end)) for name in NAMES):
            await self.ear.wait_for(len(self.ear.items) + 1)

    async def owned_by(self, worker: asyncio.subprocess.Process) -> list[str]:
        views = [await self.store.session(SessionId(name)) for name in NAMES]
        return [v.session_id for v in views if v is not None and v.owner is not None and f"-{worker.pid}-" in v.owner]

    async def close(self) -> None:
        for worker in self.workers:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGKILL)
            await worker.wait()
        await asyncio.gather(*self._watching)
        await self.gateway.close()
        await self.store.close()


@asynccontextmanager
async def cluster(broker: Broker, redis_url: str) -> AsyncIterator[Cluster]:
    both = Cluster(broker.with_topics(), redis_url)
    try:
        await both.start()
        yield both
        both.gateway.check_integrity()
    finally:
        await both.close()


async def test_sessions_of_a_worker_that_is_killed_go_on_elsewhere_and_nothing_is_missing(
    broker: Broker, redis_url: str
) -> None:
    async with cluster(broker, redis_url) as both:
        await both.publish(0, 9)
        await both.all_told(0, 9)
        assert await both.owned_by(both.workers[0])
        both.workers[0].kill()
        await both.publish(9, CHUNKS + 2)
        await both.ear.finished(*NAMES)
        await both.all_told(0, CHUNKS + 2)
        for name in NAMES:
            assert sum(isinstance(event, Finished) for event in both.ear.of(name)) == 1


async def test_a_frozen_worker_that_wakes_up_changes_nothing(broker: Broker, redis_url: str) -> None:
    async with cluster(broker, redis_url) as both:
        await both.publish(0, 9)
        await both.all_told(0, 9)
        frozen = both.workers[0]
        had = both.partitions[frozen.pid]
        assert await both.owned_by(frozen)
        frozen.send_signal(signal.SIGSTOP)
        await both.publish(9, CHUNKS)
        await both.all_told(9, CHUNKS)
        frozen.send_signal(signal.SIGCONT)
        while both.partitions[frozen.pid] == had:
            await asyncio.sleep(0.02)
        await both.publish(CHUNKS, CHUNKS + 2)
        await both.ear.finished(*NAMES)
        for name in NAMES:
            assert both.ear.progress(name) - {STILL_HERE_MS} == set(range(CHUNKS + 2))
            assert sum(isinstance(event, Finished) for event in both.ear.of(name)) == 1
