from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.bus.kafka.worker import KafkaWorkerBus
from streamscribe.store.memory_sessions import MemorySessions
from tests.contracts.bus import BusContract, Ends
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES, Broker


class TestKafkaBus(BusContract):
    @pytest.fixture(autouse=True)
    def _broker(self, broker: Broker) -> None:
        self.broker = broker

    @asynccontextmanager
    async def make_bus(self, max_backlog_s: float) -> AsyncIterator[Ends]:
        settings = self.broker.with_topics()
        gateway = KafkaGatewayBus(settings, max_backlog_s, MAX_MESSAGE_BYTES, reply_to=1)
        worker = KafkaWorkerBus(settings, MemorySessions(lease_ttl_s=1, seat_ttl_s=1, keep_s=60), MAX_MESSAGE_BYTES)
        await gateway.start()
        await worker.start()
        try:
            yield Ends(gateway, worker)
            gateway.check_integrity()
            worker.check_integrity()
        finally:
            await gateway.close()
            await worker.close()
