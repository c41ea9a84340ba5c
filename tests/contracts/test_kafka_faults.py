"""What the Kafka bus does with strangers' records, with brokers that are away, and with workers that are not heard."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from streamscribe.bus.kafka import sender, topics
from streamscribe.bus.kafka.envelope import record_headers
from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BusUnavailable, TooLarge
from streamscribe.core.ids import SessionId
from streamscribe.core.records import AudioEnded, Failed, Progress, SessionAbandoned
from streamscribe.settings import KafkaSettings, SettingsError
from streamscribe.wire.bus_records import encode_record
from tests.contracts.bus import chunk, opened
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES, Broker
from tests.contracts.kafka_rig import KafkaRig, kafka_rig
from tests.contracts.raw_producer import send_raw
from tests.contracts.takeover import CHUNK, Ear, Listener, session

SECRET = b"what somebody said"


@pytest.fixture
async def rig(broker: Broker) -> AsyncIterator[KafkaRig]:
    async with kafka_rig(broker, 5) as running:
        yield running


def read_all(kafka: KafkaSettings, topic: str, partition: int, at_least: int = 1) -> list[Message]:
    """Its records, until none comes any more; the broker's own word on how many there are is not to be trusted."""
    consumer = Consumer({"bootstrap.servers": kafka.brokers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    messages: list[Message] = []
    while True:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            messages.append(message)
        elif len(messages) >= at_least:
            consumer.close()
            return messages


async def test_no_gateway_reads_what_is_not_its_own(rig: KafkaRig) -> None:
    other = KafkaGatewayBus(rig.kafka, 5, MAX_MESSAGE_BYTES, reply_to=0)
    await other.start()
    ears = {1: Ear(), 0: Ear()}
    rig.gateway.attach_gateway(ears[1])
    other.attach_gateway(ears[0])
    Listener(await rig.start_worker())
    for ours, theirs in zip(session("a", 9), session("b", 9), strict=True):
        await rig.gateway.publish(ours)
        await other.publish(theirs)
    await ears[1].finished("a")
    await ears[0].finished("b")
    await other.close()
    results = Topics.of(rig.kafka).results
    for reply_to, name in ((1, b"a"), (0, b"b")):
        keys = {message.key() for message in read_all(rig.kafka, results, reply_to)}
        assert keys <= {name, None}
        assert name in keys


async def test_a_partition_that_a_worker_begins_with_again_is_read_from_where_its_sessions_can_go_on(
    rig: KafkaRig,
) -> None:
    rig.gateway.attach_gateway(ear := Ear())
    worker = await rig.start_worker()
    listener = Listener(worker)
    records = list(session("a", 20))
    for record in records[:8]:
        await rig.gateway.publish(record)
    async with asyncio.timeout(30):
        while len(listener.heard[SessionId("a")]) < 8:
            await asyncio.sleep(0.05)
        heard = len(listener.heard[SessionId("a")])
        for partition in range(rig.kafka.audio_partitions):
            worker._membership.begin_again(partition, worker._begun_again)
        while len(listener.heard[SessionId("a")]) == heard:
            await asyncio.sleep(0.05)
    for record in records[8:]:
        await rig.gateway.publish(record)
    await ear.finished("a")


async def test_records_that_nobody_can_read_are_named_in_the_dead_letter_topic_and_hold_up_nobody(
    rig: KafkaRig,
) -> None:
    rig.gateway.attach_gateway(ear := Ear())
    names, headers = Topics.of(rig.kafka), record_headers(1, 0, "t")
    published = list(session("a", 9))
    for record in published[:5]:
        await rig.gateway.publish(record)
    stranger = Producer({"bootstrap.servers": rig.kafka.brokers, "log_level": 0})
    for partition in range(rig.kafka.audio_partitions):
        stranger.produce(names.audio, SECRET, b"a", partition, headers=headers)
        stranger.produce(names.audio, encode_record(chunk("a", 99, SECRET)), b"a", partition)
        stranger.produce(names.audio, encode_record(chunk("a", 99, SECRET)), b"../x", partition, headers=headers)
    stranger.produce(names.results, SECRET, b"a", 1)
    assert stranger.flush(10) == 0
    worker = await rig.start_worker()
    Listener(worker)
    for record in published[5:]:
        await rig.gateway.publish(record)
    await ear.finished("a")
    assert ear.progress("a") == set(range(11))
    while worker.dead_letters + rig.gateway.dead_letters < 7 or worker.unsent_bytes:
        await asyncio.sleep(0.01)
    letters = read_all(rig.kafka, names.dead_letter, 0, at_least=7)
    assert all(SECRET not in (letter.value() or b"") for letter in letters)
    told = [json.loads(letter.value() or b"") for letter in letters]
    assert sorted((one["topic"] == names.audio, one["session_id"]) for one in told) == sorted(
        [(False, "a")] + 2 * [(True, "a"), (True, "a"), (True, "")]
    )
    assert {"partition", "offset", "reason"} <= told[0].keys()


async def test_a_header_whose_name_is_no_text_costs_its_record_and_ends_neither_end(rig: KafkaRig) -> None:
    """Also where the interpreter has quickened how headers are asked for: the process would end by SIGSEGV."""
    rig.gateway.attach_gateway(ear := Ear())
    worker = await rig.start_worker()
    Listener(worker)
    headers = ((b"v", b"1"), (b"\xff\xfe", b"0"), (b"reply-to", b"1"), (b"audio-at", b"0"))
    names = Topics.of(rig.kafka)
    for topic in 20 * (names.audio, names.results):
        await asyncio.to_thread(send_raw, rig.kafka.brokers, topic, 1, b"a", encode_record(opened("a")), headers)
    for record in session("b", 9):
        await rig.gateway.publish(record)
    await ear.finished("b")
    while (worker.dead_letters, rig.gateway.dead_letters) != (20, 20):
        await asyncio.sleep(0.01)


async def test_a_worker_that_the_group_gave_up_speaks_in_vain(broker: Broker) -> None:
    """Its thread stands still, so the group moves the partitions; its loop goes on and knows nothing of it."""
    async with kafka_rig(broker, 5, max_poll_interval_ms=1000) as rig:
        rig.gateway.attach_gateway(ear := Ear())
        listeners = [Listener(await rig.start_worker()) for _ in range(2)]
        while [len(worker.partitions) for worker in rig.workers] != [1, 1]:
            await asyncio.sleep(0.01)
        await rig.gateway.publish(opened("a"))
        await ear.wait_for(1)
        first, second = sorted(listeners, key=lambda listener: not listener.heard)
        given_up = next(worker for worker in rig.workers if worker is first.bus)
        go_on, turn = threading.Event(), given_up._membership._reader._turn
        given_up._membership._reader._turn = lambda: (go_on.wait(20), turn())
        await rig.gateway.publish(chunk("a", 1, CHUNK))
        while second.heard[SessionId("a")][1:] != [chunk("a", 1, CHUNK)] or 1 not in ear.progress("a"):
            await ear.wait_for(len(ear.items) + 1)
        given_up.emit(Progress(SessionId("a"), 666))
        while rig.gateway.fenced == 0:
            await asyncio.sleep(0.01)
        go_on.set()
        while not isinstance(first.heard[SessionId("a")][-1], SessionAbandoned):
            await asyncio.sleep(0.01)
        given_up.emit(Progress(SessionId("a"), 667))
        await rig.gateway.publish(AudioEnded(SessionId("a"), 2))
        await ear.finished("a")
        assert ear.progress("a") == {0, 1, 2}
        assert isinstance(second.heard[SessionId("a")][-1], AudioEnded)


async def test_a_session_of_which_the_store_knows_nothing_fails_instead_of_hanging(rig: KafkaRig) -> None:
    rig.gateway.attach_gateway(ear := Ear())
    await rig.gateway.publish(opened("a"))
    names = Topics.of(rig.kafka)
    stranger = Producer({"bootstrap.servers": rig.kafka.brokers, "log_level": 0})
    beyond = [TopicPartition(names.audio, partition, 1) for partition in range(2)]
    stranger.produce(names.audio, b"", partition=0)
    stranger.produce(names.audio, b"", partition=1)
    assert stranger.flush(10) == 0
    group = Consumer(
        {"bootstrap.servers": rig.kafka.brokers, "group.id": f"{rig.kafka.topic_prefix}audio-chunks-group"}
    )
    group.commit(offsets=beyond, asynchronous=False)
    group.close()
    await rig.gateway.publish(chunk("a", 1, CHUNK))
    Listener(await rig.start_worker())
    (event,) = await ear.wait_for(1)
    assert isinstance(event, Failed)
    assert event.error.code == "store_unavailable"


async def test_a_session_that_is_abandoned_while_it_has_no_worker_is_forgotten_by_the_store(rig: KafkaRig) -> None:
    rig.gateway.attach_gateway(ear := Ear())
    first = Listener(await rig.start_worker())
    for record in list(session("a", 9))[:6]:
        await rig.gateway.publish(record)
    while 5 not in ear.progress("a") or await rig.store.load(SessionId("a")) is None:
        await asyncio.sleep(0.01)
    await rig.kill_worker(first.bus)
    await rig.gateway.publish(SessionAbandoned(SessionId("a"), 6))
    second = Listener(await rig.start_worker())
    while await rig.store.session(SessionId("a")) is not None:
        await asyncio.sleep(0.01)
    assert not any(isinstance(record, AudioEnded) for record in second.heard.get(SessionId("a"), ()))


async def test_while_brokers_are_away_publishers_wait_and_then_go_on(broker: Broker, rig: KafkaRig) -> None:
    rig.gateway.attach_gateway(ear := Ear())
    Listener(await rig.start_worker())
    published = list(session("a", 9))
    await rig.gateway.publish(published[0])
    with broker.frozen():
        waiting = [asyncio.ensure_future(rig.gateway.publish(record)) for record in published[1:]]
        done, _ = await asyncio.wait(waiting, timeout=0.5)
        assert not done
    await asyncio.gather(*waiting)
    await ear.finished("a")
    assert ear.progress("a") == set(range(11))


async def test_a_record_that_no_broker_took_in_time_fails_its_session(broker: Broker) -> None:
    async with kafka_rig(broker, 0.2, delivery_timeout_s=3) as rig:
        await rig.gateway.publish(opened("a"))
        with broker.frozen():
            waiting = [asyncio.ensure_future(rig.gateway.publish(chunk("a", index, CHUNK))) for index in range(1, 6)]
            for publisher in waiting:
                with pytest.raises(BusUnavailable):
                    await publisher
        with pytest.raises(BusUnavailable):
            await rig.gateway.publish(chunk("a", 6, CHUNK))
        with suppress(BusUnavailable):  # this broker does not know a producer again that was silent for so long
            await rig.gateway.publish(opened("b"))
        for record in session("c", 1):
            await rig.gateway.publish(record)


async def test_both_ends_say_whether_brokers_answer(
    broker: Broker, rig: KafkaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await rig.start_worker()
    await rig.gateway.check()
    await worker.check()
    monkeypatch.setattr(sender, "_CHECK_S", 0.2)
    with broker.frozen():
        for end in (rig.gateway, worker):
            with pytest.raises(BusUnavailable, match="no broker answers"):
                await end.check()


async def test_a_gateway_that_ends_while_brokers_are_away_leaves_no_publisher_waiting(broker: Broker) -> None:
    async with kafka_rig(broker, 5) as rig:
        await rig.gateway.publish(opened("a"))
        with broker.frozen():
            waiting = asyncio.ensure_future(rig.gateway.publish(chunk("a", 1, CHUNK)))
            await asyncio.sleep(0)
            await rig.gateway.close()
            with pytest.raises(BusUnavailable):
                await waiting


async def test_a_record_larger_than_the_log_takes_fails_its_session_alone(rig: KafkaRig) -> None:
    await rig.gateway.publish(opened("a"))
    with pytest.raises(TooLarge):
        await rig.gateway.publish(chunk("a", 1, bytes(2 * MAX_MESSAGE_BYTES)))
    await rig.gateway.publish(opened("b"))


async def test_a_bus_says_which_topic_is_missing_and_what_to_type(broker: Broker) -> None:
    gateway = KafkaGatewayBus(broker.settings(), 5, MAX_MESSAGE_BYTES, reply_to=0)
    with pytest.raises(SettingsError, match="audio-chunks: the cluster has none; type: streamscribe topics ensure"):
        await gateway.start()
    await gateway.close()


async def test_a_gateway_has_a_partition_that_there_is(broker: Broker) -> None:
    with pytest.raises(SettingsError, match=r"kafka\.result_partitions"):
        KafkaGatewayBus(broker.settings(), 5, MAX_MESSAGE_BYTES, reply_to=2)


def test_topics_are_made_once_and_never_changed(broker: Broker) -> None:
    kafka = broker.settings()
    made = topics.ensure(kafka, MAX_MESSAGE_BYTES)
    assert [one.partitions for one in made] == [2, 2, 1, 2, 1]
    assert all(one.created for one in made)
    assert not any(one.created for one in topics.ensure(kafka, MAX_MESSAGE_BYTES))
    with pytest.raises(SettingsError, match="it has 2 partitions, and the settings say 3"):
        topics.ensure(kafka.model_copy(update={"audio_partitions": 3}), MAX_MESSAGE_BYTES)


def test_more_replicas_than_brokers_are_refused_before_anything_is_made(broker: Broker) -> None:
    kafka = broker.settings(replication=3)
    with pytest.raises(SettingsError, match="3 replicas need as many brokers, and the cluster has 1"):
        topics.ensure(kafka, MAX_MESSAGE_BYTES)
    with pytest.raises(SettingsError, match="the cluster has none"):
        topics.check(kafka)


def test_a_cluster_that_is_not_there_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "PATIENCE_S", 0.3)
    with pytest.raises(BusUnavailable, match="no broker answers"):
        topics.ensure(KafkaSettings(brokers="127.0.0.1:1"), MAX_MESSAGE_BYTES)


@pytest.mark.parametrize("options", [{"no.such.property": "1"}, {"security.protocol": "nonsense"}])
def test_options_that_librdkafka_refuses_are_an_error_of_the_settings(options: dict[str, str]) -> None:
    kafka = KafkaSettings.model_validate({"brokers": "127.0.0.1:1", "options": options})
    with pytest.raises(SettingsError, match=r"kafka\.options"):
        topics.ensure(kafka, MAX_MESSAGE_BYTES)
