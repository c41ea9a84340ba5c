"""Finalizers of a cluster, and workers that leave whole segments to them: librdkafka is replaced by `broker`."""

import asyncio
import random
from dataclasses import dataclass, replace
from typing import Any

from streamscribe.bootstrap.cluster.finalizer import Hearing, Stopped
from streamscribe.bootstrap.cluster.finals import RecognizerElsewhere
from streamscribe.bus.kafka.dead_letter import DeadLetters
from streamscribe.bus.kafka.finals.answering import KafkaFinalizer
from streamscribe.bus.kafka.finals.asking import Finalizers, Patience
from streamscribe.bus.kafka.finals.known import Answer, Known
from streamscribe.cache.purges import Purges
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import SessionId
from streamscribe.models.pool import Recognition
from streamscribe.models.ports import Hypothesis, Origin, SegmentRequest
from streamscribe.settings import KafkaSettings, WorkerSettings
from streamscribe.store.redis_attempts import _key as attempts_key
from streamscribe.wire.final_requests import FinalRequest
from tests.sim.broker import Broker, SimReader, SimSender, cancel_all
from tests.sim.clock import Node
from tests.sim.faults import Fault
from tests.sim.group import Group, SimMembership
from tests.sim.models import InlineStage, IsDeadlySegment
from tests.sim.store import SimAttempts, SimStore
from tests.worker.takeover import CountsHotwords

POLICY = BatchPolicy(max_batch_size=8, wait_ms=1)
SHARED_PARTITION = 0
"""Of the answers to all workers, so that they read each other's."""
MAX_INSIDE = 3
"""Less than `answering.MAX_INSIDE`, so that it is met."""
PATIENCE_S = 30.0
"""Longer than faults can hold up an answer."""
MAX_SKEW_S = 1.0
"""Of a finalizer's clock from workers'."""
DRAIN_S = 5.0
LOOK_S = 1.0


class SimFinalizers(Finalizers):
    """A worker's stage: the real one, with other means to reach the brokers."""

    def begin(self, broker: Broker, node: Node) -> None:
        """As `connect`; its name and partition follow from the seed."""
        self.asker = node.name
        self._reply_to = SHARED_PARTITION
        sender: Any = SimSender(broker, node)
        reader: Any = SimReader(broker, node, self._topics.finals, self._reply_to, self._take)
        sender.on_room = self._roomy.set
        self._sender, self._reader = sender, reader
        self._dead_letters = DeadLetters(sender, self._topics.dead_letter)
        self.sim_sender: SimSender = sender

    async def kill(self) -> None:
        """As the end of its process."""
        await self.sim_sender.kill()
        await self._reader.stop()


class _FinalizerEnd(KafkaFinalizer):
    """The real one, with other means to reach the brokers."""

    def begin(self, group: Group, node: Node) -> tuple[SimSender, SimMembership]:
        """As `start`."""
        self._known = Known(Purges(), asyncio.get_running_loop().time)
        self._broker = group.broker
        sender: Any = SimSender(group.broker, node)
        membership: Any = SimMembership(
            group, node, take=self._take, assigned=self._assigned, give_up=self._give_up, lost=self._lost
        )
        self._sender, self._membership = sender, membership
        self._dead_letters = DeadLetters(sender, self._topics.dead_letter)
        return sender, membership

    async def _hear(self, asked: FinalRequest, request: SegmentRequest) -> Answer:
        """It knows whose the segment is, for who asks whether it is deadly."""
        return await super()._hear(
            asked, replace(request, origin=Origin(asked.session_id, asked.segment_id, asked.trace_id))
        )

    async def _look(self) -> None:
        while True:
            self._known.sweep()
            self._ends = {number: self._broker.end(self._topics.finalize, number) for number in self.partitions}
            await asyncio.sleep(LOOK_S)

    async def stop_tasks(self) -> None:
        """As the end of its process."""
        await cancel_all(list(self._tasks))


class FinalizerProcess:
    """A real finalizer with the fake recogniser, as faults see it."""

    def __init__(
        self, node: Node, group: Group, store: SimStore, kafka: KafkaSettings, cost_s: float, is_deadly: IsDeadlySegment
    ) -> None:
        self.node = node
        self.told_to_go = self.ended = self.killed = False
        """`killed` by a segment."""
        self._store, self._attempts = store, SimAttempts(store)
        self._is_deadly = is_deadly
        loop, skew_s = asyncio.get_running_loop(), group.broker.rng.uniform(-MAX_SKEW_S, MAX_SKEW_S)
        self.bus = _FinalizerEnd(kafka, self._attempts, Purges(), lambda: loop.time() + skew_s)
        self._sender, self._membership = self.bus.begin(group, node)
        recognizer = CountsHotwords()
        self.stage = stage = InlineStage("recognition", recognizer.recognize, POLICY, group.broker.rng, cost_s)
        self._hearing = Hearing(Recognition(recognizer, stage))
        node.call(self.bus.attach, self._recognise)

    async def _recognise(self, request: SegmentRequest, priority: Priority, audio_s: float, share: Share) -> Hypothesis:
        assert request.origin is not None
        if self._is_deadly(request.origin):  # nothing more runs in its process
            self.killed = True
            self.node.freeze()
        try:
            return await self._hearing(request, priority, audio_s, share)
        except Stopped:
            self._blame(request.origin.session_id, request.origin.segment_id)
            raise

    def _blame(self, session_id: SessionId, segment_id: int) -> None:
        self._store.blamed.add(attempts_key(session_id, segment_id))

    def fall_silent(self, for_s: float) -> None:
        """Its answers do not come into the log for so long, and its group hears it all the same."""
        self._sender.held_until = asyncio.get_running_loop().time() + for_s

    @property
    def over(self) -> bool:
        """Whether its process has to end, or is killed."""
        return self.killed or self._membership.failed.done()

    async def end(self) -> None:
        """As SIGKILL."""
        if self.ended:
            return
        self.ended = True
        self._sender.dead = self._membership.dead = self._attempts.link.dead = True
        for session_id, segment_id, _ in self.bus._known._heard_now:
            self._blame(session_id, segment_id)
        self.node.thaw()
        await asyncio.sleep(0)  # it may have stood still before it joined
        await self._sender.kill()
        await self._membership.kill()
        await self.bus.stop_tasks()
        self.stage.close()

    async def leave(self, drain_s: float) -> None:
        """As SIGTERM, or an error of its own."""
        self.node.thaw()
        await self.node.spawn(self.bus.close(drain_s))


@dataclass(frozen=True, slots=True)
class Habits:
    """What a run's settings say of finals."""

    patience_s: float
    degrade_after_ms: int | None
    cost_s: float
    policy: BatchPolicy
    """How much a worker may ask at a time."""

    @staticmethod
    def of(rng: random.Random) -> "Habits":
        """Some are impatient; some tell the first pass' text after a while; some finalizers are slow."""
        patience_s, degrade_after_ms = rng.choice((PATIENCE_S, PATIENCE_S, 4.0)), rng.choice((None, None, 800))
        cost_s, room = rng.choice((0.01, 0.1, 1.0)), rng.choice((2, 256))
        return Habits(patience_s, degrade_after_ms, cost_s, BatchPolicy(max_batch_size=8, wait_ms=1, max_inflight=room))

    @property
    def impatient(self) -> bool:
        """Sessions may fail because finalizers are late."""
        return self.patience_s < PATIENCE_S

    @property
    def worker(self) -> WorkerSettings:
        """Of workers."""
        if self.degrade_after_ms is None:
            return WorkerSettings()
        return WorkerSettings(degrade="first_pass", degrade_after_ms=self.degrade_after_ms)


class FinalizerFleet:
    """Places for finalizers: one that ends is followed by another."""

    def __init__(
        self, broker: Broker, store: SimStore, kafka: KafkaSettings, topic: str, is_deadly: IsDeadlySegment
    ) -> None:
        self.habits = Habits.of(broker.rng)
        self.processes: dict[int, FinalizerProcess] = {}
        self.group = Group(broker, topic)
        self.size = broker.rng.choice((1, 2, 3))
        self.outage_until = 0.0
        self.dropped = self.repeated = self.expired = self.timed_out = 0
        self._store, self._kafka, self._topic, self._is_deadly = store, kafka, topic, is_deadly
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(number)) for number in range(self.size)]

    def recognition(self, node: Node) -> tuple[Recognition, SimFinalizers]:
        """What a worker has in place of a recogniser."""
        patience = Patience(self.habits.patience_s, self.habits.patience_s)
        asking = SimFinalizers(self._kafka, self.habits.policy, patience)
        asking.begin(self.group.broker, node)
        return Recognition(RecognizerElsewhere(CountsHotwords.tail_padding_ms), asking), asking

    async def _keep(self, number: int) -> None:
        loop, rng, lives = asyncio.get_running_loop(), self.group.broker.rng, 0
        while True:
            while loop.time() < self.outage_until:
                await asyncio.sleep(self.outage_until - loop.time())
            node = Node(f"finalizer-{number}-{lives}")
            lives += 1
            process = self.processes[number] = FinalizerProcess(
                node, self.group, self._store, self._kafka, self.habits.cost_s, self._is_deadly
            )
            try:
                while not (process.told_to_go or process.ended or process.over):
                    await asyncio.sleep(0.1)
                if not process.ended and not process.killed:
                    await process.leave(DRAIN_S if process.told_to_go else 0.0)
            finally:
                del self.processes[number]
                await asyncio.shield(process.end())
                self.repeated += process.bus.repeated
                self.expired += process.bus.expired
            await asyncio.sleep(rng.uniform(0.1, 1.0))

    def count(self, asking: SimFinalizers) -> None:
        """A worker has ended that asked."""
        self.dropped += asking.dropped
        self.timed_out += asking.timed_out

    async def suffers(self, fault: Fault) -> bool:
        """Does what goes wrong with finalizers; False where there is none that it could befall."""
        process = self.processes.get(fault.worker % self.size)
        match fault.kind:
            case "finalizer dies" if process is not None:
                await process.end()
            case "finalizer freezes" if process is not None:
                await process.node.stand_still(fault.for_s)
            case "finalizer goes" if process is not None:
                process.told_to_go = True
            case "finalizer is mute" if process is not None:
                process.fall_silent(fault.for_s)
                await asyncio.sleep(fault.for_s)
                if fault.suspect:
                    await process.end()
            case "finalizer's model stops" if process is not None:
                process.stage.stop()
            case "no finalizer":
                self.outage_until = asyncio.get_running_loop().time() + fault.for_s
                for one in list(self.processes.values()):
                    await one.end()
            case _:
                return False
        return True

    async def is_idle(self, within_s: float) -> bool:
        """Waits until each request is committed; False where that takes too long."""
        loop, broker = asyncio.get_running_loop(), self.group.broker
        until = loop.time() + within_s
        places = [(self._topic, number) for number in range(broker.partitions)]
        while any(broker.committed.get(place, 0) < broker.end(*place) for place in places):
            if loop.time() > until:
                return False
            await asyncio.sleep(0.5)
        return True

    async def close(self) -> None:
        """Ends everything; nothing may be left."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.wait(self._keepers)
        await self.group.close()
        for keeper in self._keepers:
            if not keeper.cancelled():
                keeper.result()

    def check_integrity(self) -> None:
        """All ledgers' equations."""
        for process in self.processes.values():
            if not (process.node.frozen or process.ended or process.over):
                process.bus.check_integrity()
                process.stage.check_integrity()


def is_expected(failure: dict[str, Any]) -> bool:
    """Whether a loop was told what a fault asks for: a model that has stopped."""
    return isinstance(failure.get("exception"), Stopped)
