"""The reading of sessions' pasts in virtual time: what a gateway that takes a session over speaks to."""

import asyncio
from typing import Any

from confluent_kafka import TopicPartition

from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.reading import Reading
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BusUnavailable
from tests.sim.broker import Broker, Message, cancel_all
from tests.sim.clock import Node

POLL_S = 0.02


class SimConsumer:
    """Of no group, as confluent-kafka's: partitions in any turn, each in its order."""

    def __init__(self, broker: Broker, topics: Topics) -> None:
        self._broker = broker
        self._audio = topics.audio
        self._at: dict[tuple[str, int], int] = {}
        self._begun_at: dict[tuple[str, int], int] = {}

    def committed(self, parts: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        committed = self._broker.committed
        return [
            TopicPartition(part.topic, part.partition, committed.get((part.topic, part.partition), -1001))
            for part in parts
        ]

    def incremental_assign(self, parts: list[TopicPartition]) -> None:
        for part in parts:
            assert (part.topic, part.partition) not in self._at, "assigned twice"
            self._at[part.topic, part.partition] = self._begun_at[part.topic, part.partition] = part.offset

    def incremental_unassign(self, parts: list[TopicPartition]) -> None:
        for part in parts:
            del self._at[part.topic, part.partition]

    def consume(self, most: int, timeout: float) -> list[Message]:
        places = list(self._at)
        self._broker.rng.shuffle(places)
        found: list[Message] = []
        for place in places:
            batch = self._broker.read(*place, self._at[place], self._broker.rng.randrange(60))
            self._at[place] = self._broker.goes_on(self._at[place] + len(batch), self._begun_at[place])
            found += batch
        return found

    def close(self) -> None:
        self._at = {}


class SimPasts:
    """As `bus.kafka.pasts.Pasts`: its reading is the real one, its thread a task."""

    def __init__(self, broker: Broker, node: Node, topics: Topics) -> None:
        consumer: Any = SimConsumer(broker, topics)
        self._broker = broker
        self._reading = Reading(consumer, topics, asyncio.get_running_loop().time)
        self._asked: list[Past] = []
        self._wake = asyncio.Event()
        self._task = node.spawn(self._run())

    async def read(self, past: Past) -> None:
        self._asked.append(past)
        self._wake.set()
        try:
            await past.done
        finally:
            past.done.cancel()

    async def close(self) -> None:
        await cancel_all([self._task])
        for past in (*self._asked, *self._reading.pasts()):
            past.settle(BusUnavailable())
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        late = BusUnavailable("the session's past was not read in time", retry_after_s=1.0)
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._asked or self._reading.busy:
                await asyncio.sleep(POLL_S + self._broker.delay())
                await self._broker.answers()
                asked, self._asked = self._asked, []
                for past in self._reading.step(asked):
                    past.settle(late)
