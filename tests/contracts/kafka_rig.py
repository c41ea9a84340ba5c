"""Kafka's two ends in one loop, workers that come and are killed, over a real broker."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.bus.kafka.worker import KafkaWorkerBus
from streamscribe.ports import SessionStore, WorkerBus
from streamscribe.settings import KafkaSettings
from streamscribe.store.memory_sessions import MemorySessions
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES, Broker


def sessions_store(lease_ttl_s: float = 1) -> MemorySessions:
    """Leases of a dead worker end quickly."""
    return MemorySessions(lease_ttl_s=lease_ttl_s, seat_ttl_s=1, keep_s=60)


class KafkaRig:
    """One gateway, and the workers that were started."""

    def __init__(self, kafka: KafkaSettings, max_backlog_s: float, store: SessionStore) -> None:
        self.kafka = kafka
        self.store = store
        self.gateway = KafkaGatewayBus(kafka, max_backlog_s, MAX_MESSAGE_BYTES, reply_to=1)
        self.workers: list[KafkaWorkerBus] = []

    async def start_worker(self) -> KafkaWorkerBus:
        worker = KafkaWorkerBus(self.kafka, self.store, MAX_MESSAGE_BYTES)
        await worker.start()
        self.workers.append(worker)
        return worker

    async def kill_worker(self, worker: WorkerBus) -> None:
        """Nothing is given up, committed, released or sent any more; only its group is told, to wait for less."""
        assert isinstance(worker, KafkaWorkerBus)

        async def nothing(numbers: Collection[int]) -> dict[int, int]:
            return {}

        worker._sessions.closed = True
        await worker._sessions.cancel_tasks()
        worker._membership._give_up = nothing
        worker._sender._producer.purge()
        await worker._membership.leave()
        worker._sender._stopping = True
        await asyncio.to_thread(worker._sender._thread.join)
        self.workers.remove(worker)

    async def close(self) -> None:
        await self.gateway.close()
        for worker in self.workers:
            await worker.close()


@asynccontextmanager
async def kafka_rig(
    broker: Broker, max_backlog_s: float, lease_ttl_s: float = 1, **settings: object
) -> AsyncIterator[KafkaRig]:
    rig = KafkaRig(broker.with_topics(**settings), max_backlog_s, sessions_store(lease_ttl_s))
    await rig.gateway.start()
    try:
        yield rig
        rig.gateway.check_integrity()
        for worker in rig.workers:
            worker.check_integrity()
    finally:
        await rig.close()
