"""What the simulation found of finalizers, without its dice."""

import asyncio
import random

from streamscribe.core.errors import BusUnavailable
from tests.sim.broker import Broker, Message
from tests.sim.clock import Node, run_virtually
from tests.sim.cluster import KAFKA, TOPICS
from tests.sim.finals import FinalizerProcess
from tests.sim.group import Group
from tests.sim.store import SimStore


def test_requests_of_a_partition_that_is_lost_as_they_come_are_not_inside_for_ever() -> None:
    """As where a finalizer stood still: what it had read and that it was thrown out come to it at once."""

    async def main() -> int:
        rng = random.Random(0)
        group = Group(Broker(rng, KAFKA.finalize_partitions), TOPICS.finalize)
        finalizer = FinalizerProcess(Node("f"), group, SimStore(rng), KAFKA, 0.01, lambda origin: False)
        while not finalizer.bus.partitions:
            await asyncio.sleep(0.1)
        finalizer.bus._take([Message((TOPICS.finalize, 0, at), b"s", b"", [], 0.0) for at in range(5)])
        finalizer.bus._lost([0])
        await asyncio.sleep(0.1)
        waiting = finalizer.bus.waiting
        await finalizer.end()
        await group.close()
        return waiting

    assert run_virtually(main)[0] == 0


def test_requests_that_the_log_gives_again_while_they_are_answered_end_no_finalizer() -> None:
    async def main() -> tuple[int, bool]:
        rng = random.Random(0)
        group = Group(Broker(rng, KAFKA.finalize_partitions), TOPICS.finalize)
        finalizer = FinalizerProcess(Node("f"), group, SimStore(rng), KAFKA, 0.01, lambda origin: False)
        while not finalizer.bus.partitions:
            await asyncio.sleep(0.1)
        requests = [Message((TOPICS.finalize, 0, at), b"s", b"", [], 0.0) for at in range(5)]
        finalizer.bus._take(requests)
        finalizer.bus._take(requests[2:])
        finalizer.bus.check_integrity()
        await asyncio.sleep(1)
        waiting, over = finalizer.bus.waiting, finalizer.over
        await finalizer.end()
        await group.close()
        return waiting, over

    assert run_virtually(main)[0] == (0, False)


def test_a_finalizer_whose_model_has_stopped_takes_no_further_request() -> None:
    """Each would fail at once, and be suspected of what stopped the model."""

    async def main() -> tuple[int, int]:
        rng = random.Random(0)
        group = Group(Broker(rng, KAFKA.finalize_partitions), TOPICS.finalize)
        finalizer = FinalizerProcess(Node("f"), group, SimStore(rng), KAFKA, 0.01, lambda origin: False)
        while not finalizer.bus.partitions:
            await asyncio.sleep(0.1)
        requests = [Message((TOPICS.finalize, 0, at), b"s", b"", [], 0.0) for at in range(2)]
        finalizer.bus._take(requests[:1])
        taken = finalizer.bus.waiting
        finalizer.bus._membership.failed.set_result(BusUnavailable())
        finalizer.bus._take(requests[1:])
        waiting = finalizer.bus.waiting
        await finalizer.end()
        await group.close()
        return taken, waiting

    assert run_virtually(main)[0] == (1, 1)
