"""Kafka's log among the buses that are measured: a gateway's end here, a worker's end in another process.

Run as a module by `bench bus --kafka`, with the settings as JSON; ends when its reader is gone.
"""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from streamscribe.bench.bus_echo import echo
from streamscribe.bus.kafka import topics
from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.bus.kafka.worker import KafkaWorkerBus
from streamscribe.core.errors import BusUnavailable, StreamScribeError
from streamscribe.settings import KafkaSettings, Settings
from streamscribe.store.memory_sessions import MemorySessions

PARTITIONS = 4
POLL_S = 0.05
MAX_MESSAGE_BYTES = Settings().limits.max_message_bytes
READY = b"ready\n"


@asynccontextmanager
async def over_kafka(brokers: str, backlog_s: float) -> AsyncIterator[KafkaGatewayBus]:
    """Makes topics of its own, on as many brokers as there must be: one.

    Raises what `topics.ensure` does, and BusUnavailable where the worker's end does not come up.
    """
    kafka = KafkaSettings(
        brokers=brokers,
        topic_prefix=f"bench-{secrets.token_hex(4)}-",
        audio_partitions=PARTITIONS,
        result_partitions=1,
        finalize_partitions=1,
        replication=1,
    )
    await asyncio.to_thread(topics.ensure, kafka, MAX_MESSAGE_BYTES)
    command = [sys.executable, "-m", "streamscribe.bench.bus_kafka", kafka.model_dump_json()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:  # noqa: ASYNC220
        bus = KafkaGatewayBus(kafka, backlog_s, MAX_MESSAGE_BYTES, reply_to=0)
        try:
            assert worker.stdout is not None  # noqa: S101 - it is a pipe
            if (word := await asyncio.to_thread(worker.stdout.readline)) != READY:
                raise BusUnavailable(f"the worker's end did not come up: {word.decode().strip()}")
            await bus.start()
            yield bus
        finally:
            worker.kill()  # else leaving this block waits for it
            await bus.close()


async def _serve(kafka: KafkaSettings) -> None:
    store = MemorySessions(lease_ttl_s=5, seat_ttl_s=15, keep_s=3600)
    bus = KafkaWorkerBus(kafka, store, MAX_MESSAGE_BYTES)
    await bus.start()
    echo(bus)
    while len(bus.partitions) < PARTITIONS:  # noqa: ASYNC110 - a few seconds, once
        await asyncio.sleep(POLL_S)
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await bus.close()


if __name__ == "__main__":
    try:
        uvloop.run(_serve(KafkaSettings.model_validate_json(sys.argv[1])))
    except StreamScribeError as error:
        sys.stdout.write(f"{error}\n")
