"""Workers with names of their own in the group (`kafka.instance_id`), as far as the test broker has them."""

from tests.contracts.kafka_broker import Broker
from tests.contracts.kafka_rig import kafka_rig
from tests.contracts.takeover import taken_over


async def test_a_worker_that_is_killed_and_comes_back_under_its_name_goes_on_with_its_sessions(broker: Broker) -> None:
    async with kafka_rig(broker, 30, instance_id="worker-1") as rig:
        await taken_over(rig, at=9)
