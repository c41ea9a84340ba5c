"""Finalizers of a real broker in one loop with whoever asks them, some of which are killed."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from streamscribe.bootstrap.cluster.finalizer import Hearing
from streamscribe.bus.kafka.finals.answering import KafkaFinalizer
from streamscribe.bus.kafka.finals.asking import Finalizers, Patience
from streamscribe.cache.purges import Purges
from streamscribe.core.batching import BatchPolicy
from streamscribe.core.ids import SessionId
from streamscribe.models.fake.recognizer import FakeRecognizer
from streamscribe.models.pool import Recognition, close_version, start_and_wait
from streamscribe.models.replica import Replica
from streamscribe.settings import KafkaSettings
from tests.contracts.segment_stage import POLICY, Engine

PATIENCE = Patience(live_s=120, file_s=120)
"""Longer than a test may take."""


class MemoryAttempts:
    """Outlives the finalizers of a test."""

    def __init__(self) -> None:
        self.begun: dict[tuple[SessionId, int], set[str]] = {}

    async def begin(self, session_id: SessionId, segment_id: int, by: str, *, fewer_than: int) -> int | None:
        names = self.begun.setdefault((session_id, segment_id), set())
        others = len(names - {by})
        if others < fewer_than:
            names.add(by)
        return others

    async def take_back(self, session_id: SessionId, segment_id: int, by: str) -> None:
        names = self.begun.get((session_id, segment_id), set())
        names.discard(by)
        if not names:
            self.begun.pop((session_id, segment_id), None)

    async def end(self, session_id: SessionId, segment_id: int) -> None:
        self.begun.pop((session_id, segment_id), None)

    @property
    def counts(self) -> Counter[tuple[SessionId, int]]:
        """How many have begun each and not ended it."""
        return Counter({segment: len(names) for segment, names in self.begun.items()})


def recognition(engine: Engine, policy: BatchPolicy = POLICY) -> Recognition:
    replica = Replica("recognizer", engine.recognize, policy=policy, on_step=lambda report: None)
    return Recognition(FakeRecognizer(), replica)


@dataclass
class FinalsRig:
    """One worker's stage, and the finalizers that were started."""

    kafka: KafkaSettings
    asking: Finalizers
    attempts: MemoryAttempts = field(default_factory=MemoryAttempts)
    running: dict[KafkaFinalizer, tuple[Recognition, Engine]] = field(default_factory=dict)

    async def start(
        self, engine: Engine, policy: BatchPolicy = POLICY, clock: Callable[[], float] = time.time
    ) -> KafkaFinalizer:
        """Returns when it is a member of the group with a partition."""
        finalizer, heard = KafkaFinalizer(self.kafka, self.attempts, Purges(), clock), recognition(engine, policy)
        await finalizer.start()
        await asyncio.to_thread(start_and_wait, heard)
        finalizer.attach(Hearing(heard))
        self.running[finalizer] = (heard, engine)
        while not finalizer.partitions:
            await asyncio.sleep(0.02)
        return finalizer

    async def kill(self, finalizer: KafkaFinalizer) -> None:
        """Nothing is committed, taken back or sent any more; only its group is told, to wait for less.

        What it hears at the gate of its engine it hears for nobody.
        """

        async def nothing(numbers: Collection[int]) -> dict[int, int]:
            return {}

        finalizer._leaving = True
        finalizer._trying._attempts = DeadAttempts()
        for task in finalizer._tasks:
            task.cancel()
        finalizer._membership._give_up = nothing
        finalizer._sender._producer.purge()
        await finalizer._membership.leave()
        finalizer._sender._stopping = True
        await asyncio.to_thread(finalizer._sender._thread.join)
        await self._end(finalizer)

    async def stop(self, finalizer: KafkaFinalizer, drain_s: float = 5) -> None:
        await finalizer.close(drain_s)
        await self._end(finalizer)

    async def _end(self, finalizer: KafkaFinalizer) -> None:
        heard, engine = self.running.pop(finalizer)
        engine.gate.set()
        await asyncio.to_thread(close_version, heard)


class DeadAttempts(MemoryAttempts):
    """Of one that was killed."""

    async def take_back(self, session_id: SessionId, segment_id: int, by: str) -> None:
        """It cannot."""


@asynccontextmanager
async def finals_rig(
    kafka: KafkaSettings, policy: BatchPolicy = POLICY, patience: Patience = PATIENCE
) -> AsyncIterator[FinalsRig]:
    asking = Finalizers(kafka, policy, patience)
    await asking.connect()
    rig = FinalsRig(kafka, asking)
    try:
        yield rig
        asking.check_integrity()
        for finalizer in rig.running:
            finalizer.check_integrity()
    finally:
        for finalizer in list(rig.running):
            await rig.stop(finalizer, 0)
        await asking.disconnect()
