"""The Kafka bus over a real broker, both ends in one loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamscribe.core.ids import SessionId
from streamscribe.core.records import AudioEnded, Finished, SessionAbandoned
from tests.contracts.bus import BusContract, Ends, Inbox, chunk, opened
from tests.contracts.kafka_broker import Broker
from tests.contracts.kafka_rig import KafkaRig, kafka_rig
from tests.contracts.takeover import CHUNK, Ear, Listener, TakeoverContract, session, taken_over


class TestKafkaBus(BusContract):
    @pytest.fixture(autouse=True)
    def _broker(self, broker: Broker) -> None:
        self.broker = broker

    @asynccontextmanager
    async def make_bus(self, max_backlog_s: float) -> AsyncIterator[Ends]:
        async with kafka_rig(self.broker, max_backlog_s) as rig:
            yield Ends(rig.gateway, await rig.start_worker())


class TestKafkaTakeover(TakeoverContract):
    """Where the log's promise is another than that of one machine's bus, the test is written anew here."""

    @pytest.fixture(autouse=True)
    def _broker(self, broker: Broker) -> None:
        self.broker = broker

    @asynccontextmanager
    async def make_rig(self, max_backlog_s: float) -> AsyncIterator[KafkaRig]:
        async with kafka_rig(self.broker, max_backlog_s) as rig:
            yield rig

    @pytest.mark.parametrize("at", [0, 6, 21])
    async def test_at_whichever_record_a_worker_ends_the_next_misses_nothing(self, at: int) -> None:
        """Which checkpoint was saved in time is not known; all that was told before it is."""
        async with self.make_rig(30) as rig:
            await taken_over(rig, at)

    async def test_the_backlog_is_bounded_for_the_next_worker_too(self) -> None:
        """The log gives what it has at once; the gateway lets no more in until the next worker has got further."""
        async with self.make_rig(0.5) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            first = Listener(await rig.start_worker(), every=100)
            published = [opened("a"), *(chunk("a", index, CHUNK) for index in range(1, 11))]
            for record in published:
                await rig.gateway.publish(record)
            await ear.wait_for(11)
            while not rig.gateway.room(SessionId("a"), 5 * len(CHUNK)):
                await asyncio.sleep(0.01)
            await rig.kill_worker(first.bus)
            for index in range(11, 16):
                await rig.gateway.publish(chunk("a", index, CHUNK))
            assert not rig.gateway.room(SessionId("a"), len(CHUNK))
            second = await rig.start_worker()
            second.attach_worker(inbox := Inbox())
            assert [record.index for record in await inbox.wait_for(16)] == list(range(16))
            second.settle(SessionId("a"), 0)
            for _ in range(10):
                second.settle(SessionId("a"), len(CHUNK))
            assert not rig.gateway.room(SessionId("a"), len(CHUNK))
            second.settle(SessionId("a"), len(CHUNK))
            await rig.gateway.publish(chunk("a", 16, CHUNK))
            assert [record.index for record in await inbox.wait_for(17)] == list(range(17))

    async def test_a_finished_session_comes_to_no_other_worker(self) -> None:
        """Nothing was committed when the first ended, but the end is in the log: what begins again is let go."""
        async with self.make_rig(30) as rig:
            rig.gateway.attach_gateway(ear := Ear())
            first = Listener(await rig.start_worker())
            for record in session("a", 6):
                await rig.gateway.publish(record)
            await ear.finished("a")
            while await rig.store.session(SessionId("a")) is not None or rig.workers[0].unsent_bytes:
                await asyncio.sleep(0.01)
            await rig.kill_worker(first.bus)
            second = await rig.start_worker()
            second.attach_worker(inbox := Inbox())
            for record in session("b", 3):
                await rig.gateway.publish(record)
            while not any(isinstance(record, AudioEnded) for record in inbox.of("b")):
                await inbox.wait_for(len(inbox.items) + 1)
            while (heard := inbox.of("a")) and not isinstance(heard[-1], SessionAbandoned):
                await inbox.wait_for(len(inbox.items) + 1)
            assert sum(isinstance(event, Finished) for event in ear.of("a")) == 1
