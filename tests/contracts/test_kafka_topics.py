"""Topics that would lose records: those who look say so, and what to set."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from streamscribe.bootstrap.kafka import ensure_topics, kafka_findings
from streamscribe.bus.kafka import config, topics
from streamscribe.bus.kafka.sender import Sender
from streamscribe.core.errors import BusUnavailable
from streamscribe.settings import KafkaSettings, LimitSettings, Settings, SettingsError
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES, Broker, kafka_broker


def settings(kafka: KafkaSettings, max_message_bytes: int = MAX_MESSAGE_BYTES) -> Settings:
    return Settings(kafka=kafka, limits=LimitSettings(max_message_bytes=max_message_bytes))


def test_topics_that_take_and_keep_all_are_fine(broker: Broker) -> None:
    kafka = broker.with_topics(retention_s=600)
    topics.check_kept(kafka, MAX_MESSAGE_BYTES)
    topics.check_kept(kafka.model_copy(update={"retention_s": 300}), MAX_MESSAGE_BYTES // 2)
    assert all(one.ok for one in kafka_findings(settings(kafka)) if one.name == "Kafka topics")


@pytest.mark.parametrize(
    ("retention_s", "max_message_bytes", "told"),
    [
        (
            600,
            MAX_MESSAGE_BYTES + 1,
            r"audio-chunks: its max\.message\.bytes is \d+, and with limits\.max_message_bytes",
        ),
        (601, MAX_MESSAGE_BYTES, r"audio-chunks: its retention\.ms is 600000, and kafka\.retention_s says 601 s"),
    ],
)
def test_topics_that_take_or_keep_less_than_the_settings_say_are_an_error_that_names_both(
    broker: Broker, retention_s: int, max_message_bytes: int, told: str
) -> None:
    kafka = broker.with_topics(retention_s=600).model_copy(update={"retention_s": retention_s})
    asked = settings(kafka, max_message_bytes)
    with pytest.raises(SettingsError, match=told):
        ensure_topics(asked)
    (finding,) = (one for one in kafka_findings(asked) if one.name == "Kafka topics")
    assert not finding.ok
    with pytest.raises(SettingsError, match=told):
        raise SettingsError(finding.detail)


def made_by_hand(broker: Broker, **properties: str) -> KafkaSettings:
    """Where `audio-chunks` is there already, with these properties."""
    kafka = broker.settings()
    named = {name.replace("_", "."): value for name, value in properties.items()}
    topic = NewTopic(topics.Topics.of(kafka).audio, kafka.audio_partitions, kafka.replication, config=named)
    admin = AdminClient(config.client(kafka))
    for made in admin.create_topics([topic]).values():
        made.result(5)
    return kafka


def test_a_topic_that_keeps_one_record_of_a_session_is_an_error(broker: Broker) -> None:
    kafka = made_by_hand(broker, cleanup_policy="compact,delete")
    with pytest.raises(SettingsError, match=r"cleanup\.policy is compact,delete"):
        topics.ensure(kafka, MAX_MESSAGE_BYTES)


@pytest.mark.parametrize("told", [{}, {"retention_ms": "-1", "cleanup_policy": "delete"}])
def test_topics_that_keep_for_ever_or_of_which_nothing_is_told_are_fine(broker: Broker, told: dict[str, str]) -> None:
    topics.ensure(made_by_hand(broker, **told), MAX_MESSAGE_BYTES)


def test_brokers_that_do_not_tell_are_a_typed_error(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = broker.with_topics()
    monkeypatch.setattr(topics, "PATIENCE_S", 0.3)
    with broker.frozen(), pytest.raises(BusUnavailable):
        topics.check_kept(kafka, config.ENVELOPE_BYTES)


@pytest.mark.parametrize("ask", [lambda kafka: topics.ensure(kafka, MAX_MESSAGE_BYTES), topics.min_session_timeout_ms])
def test_a_broker_that_calls_itself_by_an_address_that_nobody_reaches_is_told_as_such(
    ask: Callable[[KafkaSettings], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "PATIENCE_S", 1.0)
    with kafka_broker(tmp_path, "nowhere.invalid:9092") as lost, pytest.raises(BusUnavailable) as told:
        ask(lost.settings())
    assert str(told.value).endswith(topics.ADVERTISED)


def test_a_session_timeout_that_the_brokers_refuse_is_found_with_what_to_set_on_either_side(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = broker.with_topics(session_timeout_ms=2000)
    monkeypatch.setattr(topics, "min_session_timeout_ms", lambda kafka: 6000)
    found = next(one for one in kafka_findings(settings(kafka)) if one.name == "Kafka session timeout")
    assert not found.ok
    assert "set group.min.session.timeout.ms=2000 on them (now 6000)" in found.detail
    assert found.type_this == "streamscribe doctor --set kafka.session_timeout_ms=6000"


@pytest.mark.parametrize("gone", ["audio", "results", "dead_letter"])
async def test_who_looks_after_the_brokers_says_which_topic_is_missing_until_it_is_there_again(
    broker: Broker, gone: str
) -> None:
    kafka = broker.with_topics()
    names = topics.Topics.of(kafka)
    looking = Sender(config.producer(kafka, MAX_MESSAGE_BYTES, patient=True))
    await looking.check(names.names)
    missing = getattr(names, gone)
    admin = AdminClient(config.client(kafka))
    for deleted in admin.delete_topics([missing]).values():
        deleted.result(5)
    with pytest.raises(BusUnavailable, match=missing) as told:
        await looking.check(names.names)
    assert told.value.field == f"topic {missing}"
    topics.ensure(kafka, MAX_MESSAGE_BYTES)
    await looking.check(names.names)
    await looking.close()
