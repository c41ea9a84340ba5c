"""What a tenant at ten times its share costs another whose segments go to finalizers, in virtual time."""

import asyncio
import random
from functools import partial
from unittest.mock import patch

import numpy as np

from streamscribe.bus.kafka.finals.asking import Patience
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.models.ports import Origin, SegmentRequest
from tests.sim import finals
from tests.sim.broker import Broker, cancel_all
from tests.sim.clock import Node, run_virtually
from tests.sim.cluster import KAFKA, TOPICS
from tests.sim.finals import FinalizerProcess, SimFinalizers
from tests.sim.group import Group
from tests.sim.store import SimStore

WORKERS = 4
COST_S = 0.05
"""Of each segment: the finalizer hears twenty a second, and no two at once."""
QUOTA, FLOOD, OTHERS = 12, 120, 4
"""Segments a second of A by its quota and at ten times that, and of B."""
SETTLE_S, MEASURE_S = 8, 20
POLICY = BatchPolicy(max_batch_size=1, wait_ms=0)


class Steady(random.Random):
    """No dice: whatever takes up to so long takes so long."""

    def uniform(self, a: float, b: float) -> float:
        return b


async def longest_wait_s(of_a: int) -> float:
    """Of B's segments, beside so many of A's a second."""
    rng, loop = Steady(0), asyncio.get_running_loop()
    broker = Broker(rng, KAFKA.finalize_partitions)
    broker.delay = lambda: 0.001  # type: ignore[assignment, return-value]
    group = Group(broker, TOPICS.finalize)
    finalizer = FinalizerProcess(Node("f"), group, SimStore(rng), KAFKA, COST_S, lambda origin: False)
    workers = [SimFinalizers(KAFKA, POLICY, Patience(1000, 1000)) for _ in range(WORKERS)]
    for number, worker in enumerate(workers):
        worker.begin(broker, Node(f"worker-{number}"))
    while len(finalizer.bus.partitions) < broker.partitions:
        await asyncio.sleep(0.1)
    waits, began_s = list[float](), loop.time()

    async def ask(tenant: str, number: int) -> None:
        origin = Origin(SessionId(f"{tenant}-{number % 20}"), number, TraceId("t"))
        request = SegmentRequest(np.zeros(1600, np.float32), origin=origin, tenant_id=TenantId(tenant))
        asked_s = loop.time()
        worker = workers[number % WORKERS]
        await worker.submit(request, priority=Priority.URGENT, audio_s=0.1, share=Share(tenant), patient=True)
        if tenant == "b" and asked_s > began_s + SETTLE_S:
            waits.append(loop.time() - asked_s)

    async def talk(tenant: str, per_s: int) -> None:
        for number in range(per_s * (SETTLE_S + MEASURE_S)):
            await asyncio.sleep(began_s + number / per_s - loop.time())
            asking.append(loop.create_task(ask(tenant, number)))

    asking = list[asyncio.Task[None]]()
    await asyncio.gather(talk("a", of_a), talk("b", OTHERS))
    await asyncio.sleep(1)
    for worker in workers:
        worker.check_integrity()
    await cancel_all(asking)
    await finalizer.end()
    for worker in workers:
        await worker.kill()
    await group.close()
    assert len(waits) >= OTHERS * (MEASURE_S - 2)
    return max(waits)


def test_a_tenant_that_floods_finalizers_costs_another_at_most_a_tenth_of_its_wait() -> None:
    with patch.object(finals, "POLICY", POLICY):
        by_quota, by_flood = (run_virtually(partial(longest_wait_s, of_a))[0] for of_a in (QUOTA, FLOOD))
    assert by_flood <= 1.1 * by_quota
