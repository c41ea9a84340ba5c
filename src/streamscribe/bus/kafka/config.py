"""From our settings to librdkafka's properties: what is promised is set here, and options cannot unset it."""

import re
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streamscribe.core.errors import BusUnavailable, InternalError, StreamScribeError, TooLarge
from streamscribe.settings import KafkaSettings, SettingsError

ENVELOPE_BYTES = 2**16
"""What may come to the largest client message: envelope, headers, hot words of a session."""

MAX_QUEUED_KIB = 2**17
"""Records that librdkafka holds while no broker takes them; our own bound is lower (`sender.MAX_UNSENT_BYTES`)."""

_MAX_FETCHED_KIB = 2**14

NOT_TAKEN = "the service could not store the audio or its text in time"

_ADDRESS = re.compile(r"((SASL_)?(PLAINTEXT|SSL)://)?(\[[0-9a-fA-F:.%]+\]|[^\s/@:\[\]]+)(:\d{1,5})?")
"""As librdkafka takes them: it waits for good for anything else."""


def client(kafka: KafkaSettings) -> dict[str, Any]:
    """What all clients have. Reconnects are quick: a broker that is back must be found within a second."""
    if not kafka.brokers:
        raise SettingsError(
            "setting kafka.brokers: no Kafka is named; set KAFKA_BROKERS, or type --set kafka.brokers=HOST:9092"
        )
    if not all(_ADDRESS.fullmatch(address.strip()) for address in kafka.brokers.split(",")):
        raise SettingsError("setting kafka.brokers: not addresses like kafka-1:9092,kafka-2:9092")
    return {
        "client.id": "streamscribe",
        "socket.nagle.disable": True,  # a small request behind another would wait for its answer, or 40 ms
        "topic.metadata.refresh.interval.ms": 30_000,
        **{name: value.get_secret_value() for name, value in kafka.options.items()},
        "bootstrap.servers": kafka.brokers,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        "allow.auto.create.topics": False,
        "log_level": 0,  # what matters comes as an error to who asked
    }


def producer(kafka: KafkaSettings, max_message_bytes: int, *, patient: bool) -> dict[str, Any]:
    """A producer whose delivered record is on all replicas, once, in order; a `patient` one never gives one up."""
    return client(kafka) | {
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": kafka.linger_ms,
        "message.timeout.ms": 0 if patient else int(kafka.delivery_timeout_s * 1000),
        "message.max.bytes": max_message_bytes + ENVELOPE_BYTES,
        "queue.buffering.max.kbytes": MAX_QUEUED_KIB + (max_message_bytes >> 10),
        "queue.buffering.max.messages": 1_000_000,
        "partitioner": "murmur2_random",
    }


def consumer(kafka: KafkaSettings, group: str, max_message_bytes: int) -> dict[str, Any]:
    """A consumer of `group` that commits nothing by itself."""
    largest = max_message_bytes + ENVELOPE_BYTES
    most = max(largest, 50 * 2**20)
    return client(kafka) | {
        "group.id": f"{kafka.topic_prefix}{group}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": kafka.fetch_wait_ms,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 20,
        "fetch.message.max.bytes": largest,
        "fetch.max.bytes": most,
        "receive.message.max.bytes": most + 2**20,
        "queued.max.messages.kbytes": _MAX_FETCHED_KIB,
    }


def member(kafka: KafkaSettings, group: str, max_message_bytes: int) -> dict[str, Any]:
    """A consumer that shares the partitions with the others of its group."""
    properties = consumer(kafka, group, max_message_bytes) | {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": kafka.session_timeout_ms,
        "heartbeat.interval.ms": max(100, kafka.session_timeout_ms // 5),
        "max.poll.interval.ms": max(kafka.max_poll_interval_ms, kafka.session_timeout_ms),
    }
    if kafka.instance_id:
        properties["group.instance.id"] = kafka.instance_id
    return properties


def made(kind: type[Any], properties: dict[str, Any]) -> Any:
    """A client of librdkafka; a property that it refuses is an error of the settings."""
    try:
        return kind(properties)
    except (KafkaException, TypeError, ValueError) as error:
        raise SettingsError(f"setting kafka.options: {explain(error)}") from None


def explain(error: object) -> str:
    """One line of what librdkafka says; its texts name brokers, topics and properties, and hold no records."""
    if isinstance(error, KafkaException) and error.args:
        error = error.args[0]
    return " ".join((error.str() if isinstance(error, KafkaError) else str(error)).split())


_REMEDIES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "let this user read the topics",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "let this user read the group",
    KafkaError.INVALID_SESSION_TIMEOUT: (
        "set group.min.session.timeout.ms of the brokers to kafka.session_timeout_ms at most, or that to theirs"
    ),
}
"""Of what stays as it is until somebody changes it: who waited would wait for good."""


def unreadable(error: KafkaError) -> BusUnavailable | None:
    """What a process that reads ends with, where waiting helps nothing; None where librdkafka tries again by itself."""
    remedy = _REMEDIES.get(error.code())
    if remedy is None and not error.fatal():
        return None
    told = f"the log cannot be read: {explain(error)}"
    return BusUnavailable(f"{told}; {remedy}" if remedy else told)


class NoSuchPartition(BusUnavailable):
    """The partition that a record was for is none of its topic's: whoever was to read it there does not exist."""


def typed(error: KafkaError) -> StreamScribeError:
    """The error of ours that a record's failed delivery is. Clients are told its text; librdkafka's is its cause."""
    ours: StreamScribeError
    match error.code():
        case KafkaError.MSG_SIZE_TOO_LARGE:
            ours = TooLarge("a message is larger than the service can store")
        case KafkaError._UNKNOWN_PARTITION:
            ours = NoSuchPartition(NOT_TAKEN)
        case _:
            ours = BusUnavailable(NOT_TAKEN)
    ours.__cause__ = KafkaException(error)
    return ours


def fatal(error: BaseException) -> StreamScribeError:
    """What a process ends with by `error`, for whoever runs it: with what librdkafka said of it."""
    if not isinstance(error, StreamScribeError):
        error = error.__cause__ if isinstance(error.__cause__, StreamScribeError) else InternalError()
    if not isinstance(error.__cause__, KafkaException):
        return error
    return type(error)(f"{error.message}: {explain(error.__cause__)}")
