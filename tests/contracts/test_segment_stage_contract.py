"""A recogniser of segments in this process, and one that is elsewhere: a worker cannot tell them apart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamscribe.core.batching import BatchPolicy
from streamscribe.models.pool import close_version, start_and_wait
from tests.contracts.finals_rig import finals_rig, recognition
from tests.contracts.kafka_broker import Broker
from tests.contracts.segment_stage import POLICY, Engine, Segments, SegmentStageContract


class TestHere(SegmentStageContract):
    @asynccontextmanager
    async def open_stage(self, engine: Engine, policy: BatchPolicy) -> AsyncIterator[Segments]:
        here = recognition(engine, policy)
        await asyncio.to_thread(start_and_wait, here)
        yield here.stage
        engine.gate.set()
        await asyncio.to_thread(close_version, here)


class TestElsewhere(SegmentStageContract):
    @pytest.fixture(autouse=True)
    def _broker(self, broker: Broker) -> None:
        self.broker = broker

    @asynccontextmanager
    async def open_stage(self, engine: Engine, policy: BatchPolicy) -> AsyncIterator[Segments]:
        async with finals_rig(self.broker.with_topics(), policy) as rig:
            await rig.start(engine, POLICY)
            yield rig.asking
            engine.gate.set()
