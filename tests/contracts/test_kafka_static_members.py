"""Workers with names of their own in the group (`kafka.instance_id`), as far as the test broker has them."""

from streamscribe.core.ids import SessionId
from tests.contracts.kafka_broker import Broker
from tests.contracts.kafka_rig import kafka_rig
from tests.contracts.takeover import Ear, Listener, assert_goes_on, session


async def test_a_worker_that_is_killed_and_comes_back_under_its_name_goes_on_with_its_sessions(broker: Broker) -> None:
    async with kafka_rig(broker, 30, instance_id="worker-1") as rig:
        rig.gateway.attach_gateway(ear := Ear())
        first = Listener(await rig.start_worker(), stop_at=9)
        published = list(session("a", 20))
        for record in published:
            await rig.gateway.publish(record)
        await first.stopped.wait()
        await rig.kill_worker(first.bus)
        second = Listener(await rig.start_worker())
        await ear.finished("a")
        assert_goes_on(second.heard[SessionId("a")], published)
        assert ear.progress("a") == set(range(22))
