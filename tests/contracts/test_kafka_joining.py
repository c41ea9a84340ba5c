"""A finalizer and its group, of a real broker: when it counts as one of its members."""

import asyncio

from streamscribe.bus.kafka.finals.answering import KafkaFinalizer
from streamscribe.cache.purges import Purges
from tests.contracts.finals_rig import finals_rig
from tests.contracts.kafka_broker import Broker
from tests.contracts.segment_stage import Engine


async def test_a_finalizer_has_joined_when_its_group_has_given_it_its_share_and_so_has_one_that_is_too_many(
    broker: Broker,
) -> None:
    async with finals_rig(broker.with_topics(finalize_partitions=1)) as rig:
        first = await rig.start(Engine())
        assert first.joined.is_set()
        extra = KafkaFinalizer(rig.kafka, rig.attempts, Purges())
        await extra.start()
        assert not extra.joined.is_set()
        extra.attach(first._recognise)  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            await extra.joined.wait()
        assert (len(first.partitions), len(extra.partitions)) in {(1, 0), (0, 1)}
        await extra.close()
