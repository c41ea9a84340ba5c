"""A worker of the Kafka bus in a process of its own, to be killed and frozen: `python -m ... SETTINGS REDIS_URL`.

It says on standard output which partitions it has. Besides what a `Listener` tells, it says again and again that its
sessions live: `STILL_HERE_MS`.
"""

import asyncio
import sys

from streamscribe.bus.kafka.worker import KafkaWorkerBus
from streamscribe.core.records import Progress
from streamscribe.settings import KafkaSettings
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES
from tests.contracts.takeover import Listener

STILL_HERE_MS = 1_000_000


def redis_sessions(url: str) -> RedisSessions:
    return RedisSessions(url, lease_ttl_s=1, seat_ttl_s=1, keep_s=120, timeout_s=5, max_connections=4)


async def main() -> None:
    kafka, redis_url = KafkaSettings.model_validate_json(sys.argv[1]), sys.argv[2]
    bus = KafkaWorkerBus(kafka, redis_sessions(redis_url), MAX_MESSAGE_BYTES)
    await bus.start()
    listener = Listener(bus, every=3)
    said = bus.partitions
    while True:
        if said != bus.partitions:
            said = bus.partitions
            print(*said, flush=True)  # noqa: T201 - what the test reads
        for session_id in listener.heard:
            bus.emit(Progress(session_id, STILL_HERE_MS))
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main())
