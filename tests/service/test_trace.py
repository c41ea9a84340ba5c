"""One trace id through everything that the processes of a cluster tell each other of a session."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from streamscribe.client.native import NativeClient
from streamscribe.wire.native_server import ConnectedMessage, ResultMessage
from tests.service.cluster_kit import Cluster, Role, cluster
from tests.service.kit import cut, noise_speech
from tests.service.test_cluster import settled
from tests.service.test_finalizers import PARTITIONS, let_in, shared

pytestmark = pytest.mark.timeout(150)

TOPICS = ("audio-chunks", "asr-results", "offline-finalize", "final-results")
QUIET_S = 2.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), **{"kafka.finalize_partitions": f"{PARTITIONS}"}) as made:
        yield made


def traces_of_sessions(running: Cluster) -> dict[str, dict[str, set[str]]]:
    """Of all records in the log that are of one session: topic, session, trace ids."""
    found: dict[str, dict[str, set[str]]] = {topic: defaultdict(set) for topic in TOPICS}
    consumer = Consumer({"bootstrap.servers": running.broker.address, "group.id": "eyes", "enable.auto.commit": False})
    try:
        topics = consumer.list_topics(timeout=10).topics
        consumer.assign([TopicPartition(topic, part, 0) for topic in TOPICS for part in topics[topic].partitions])
        while (message := consumer.poll(QUIET_S)) is not None:
            assert message.error() is None
            if key := message.key():
                headers = dict(message.headers() or ())
                assert headers["trace"], headers
                found[message.topic()][key.decode()].add(headers["trace"].decode())
    finally:
        consumer.close()
    return found


async def spoken(gateway: Role, seed: int) -> tuple[ConnectedMessage, set[str]]:
    """What a client was told when it connected, and the trace ids of its results."""
    async with NativeClient(gateway.websocket) as client:
        for packet in cut(noise_speech(seed), 6400):
            await client.send(packet)
        await client.end()
        return client.connected, {message.trace_id async for message in client if isinstance(message, ResultMessage)}


async def test_each_record_of_a_session_in_each_topic_has_the_trace_id_that_its_client_was_told(
    running: Cluster,
) -> None:
    gateway = running.gateway()
    worker = running.worker("--set", "finalizer.enabled=true")
    finalizer = running.finalizer()
    await asyncio.to_thread(settled, [worker])
    await asyncio.to_thread(shared, [finalizer])
    await let_in(gateway)
    all_told = await asyncio.gather(*(spoken(gateway, 7300 + number) for number in range(3)))

    found = await asyncio.to_thread(traces_of_sessions, running)
    for connected, of_results in all_told:
        assert of_results == {connected.trace_id}
        for topic in TOPICS:
            assert found[topic][connected.session_id] == {connected.trace_id}, topic
    assert len({connected.trace_id for connected, _ in all_told}) == len(all_told)
