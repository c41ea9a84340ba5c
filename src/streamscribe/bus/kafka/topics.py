"""The topics: their names, how they are made, and whether they are as the settings say."""

from collections.abc import Collection
from dataclasses import astuple, dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from streamscribe.bus.kafka import config
from streamscribe.core.errors import BusUnavailable
from streamscribe.settings import KafkaSettings, SettingsError
from streamscribe.wire.final_requests import MAX_REQUEST_BYTES

AUDIO_GROUP = "audio-chunks-group"
RESULTS_GROUP = "asr-results-group"
FINALIZE_GROUP = "offline-finalize-group"
FINAL_RESULTS_GROUP = "final-results-group"

PATIENCE_S = 5.0
"""For each answer of a cluster."""

ADVERTISED = "can the address by which it calls itself (advertised.listeners) be reached from here?"
"""The commonest reason why brokers that were reached answer nothing more."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The names."""

    audio: str
    results: str
    finalize: str
    finals: str
    dead_letter: str

    @classmethod
    def of(cls, kafka: KafkaSettings) -> "Topics":
        """The names with the settings' prefix."""
        names = ("audio-chunks", "asr-results", "offline-finalize", "final-results", "dead-letter")
        return cls(*(f"{kafka.topic_prefix}{name}" for name in names))

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return astuple(self)


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is now, and whether it was made now."""

    topic: str
    partitions: int
    replication: int
    created: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    topic: str
    partitions: int
    setting: str = ""
    """Of how many partitions it has; none where that is fixed."""
    min_message_bytes: int = 0
    """That it takes, whatever clients may send."""

    def max_message_bytes(self, of_clients: int) -> int:
        """Of its records, where clients' messages have so many at most."""
        return max(of_clients, self.min_message_bytes) + config.ENVELOPE_BYTES


def ensure(kafka: KafkaSettings, max_message_bytes: int) -> list[TopicState]:
    """Makes the topics that are missing, and checks those that are there; changes none. Blocks.

    Raises SettingsError for a topic with other counts than the settings' or one that would lose records (`check_kept`),
    and where the cluster cannot hold as many replicas; BusUnavailable where no broker answers.
    """
    admin = config.made(AdminClient, config.client(kafka))
    found = _described(admin, kafka)
    wanted = _wanted(kafka)
    missing = [one for one in wanted if one.topic not in found.topics]
    if missing and len(found.brokers) < kafka.replication:
        raise SettingsError(
            f"setting kafka.replication: {kafka.replication} replicas need as many brokers, and the cluster has "
            f"{len(found.brokers)}; add brokers, or type: --set kafka.replication={len(found.brokers)}"
        )

    def properties(topic: _Wanted) -> dict[str, str]:
        return {
            "retention.ms": str(int(kafka.retention_s * 1000)),
            "max.message.bytes": str(topic.max_message_bytes(max_message_bytes)),
            "min.insync.replicas": str(max(1, kafka.replication - 1)),
        }

    made = (
        admin.create_topics(
            [
                NewTopic(
                    one.topic,
                    num_partitions=one.partitions,
                    replication_factor=kafka.replication,
                    config=properties(one),
                )
                for one in missing
            ],
            operation_timeout=PATIENCE_S,
        )
        if missing
        else {}
    )
    created = {topic for topic, future in made.items() if _was_created(topic, future)}
    states = check(kafka, created=created)
    check_kept(kafka, max_message_bytes)
    return states


def check_kept(kafka: KafkaSettings, max_message_bytes: int) -> None:
    """Whether the topics, which are there, take all that is sent and keep it for as long as the settings say. Blocks.

    What the brokers do not tell is taken to be right. Raises SettingsError and BusUnavailable.
    """
    wanted = _wanted(kafka)
    admin = config.made(AdminClient, config.client(kafka))
    told = _properties(admin, [ConfigResource(ResourceType.TOPIC, one.topic) for one in wanted])
    for one, properties in zip(wanted, told, strict=True):
        needed_bytes = one.max_message_bytes(max_message_bytes)
        taken_bytes = int(properties.get("max.message.bytes", needed_bytes))
        if taken_bytes < needed_bytes:
            raise SettingsError(
                f"topic {one.topic}: its max.message.bytes is {taken_bytes}, and with limits.max_message_bytes "
                f"{max_message_bytes} its records may have {needed_bytes}; set it on the cluster, or lower the setting"
            )
        kept_ms = int(properties.get("retention.ms", -1))
        if 0 <= kept_ms < int(kafka.retention_s * 1000):
            raise SettingsError(
                f"topic {one.topic}: its retention.ms is {kept_ms}, and kafka.retention_s says "
                f"{kafka.retention_s:g} s; set it on the cluster, or type: --set kafka.retention_s={kept_ms / 1000:g}"
            )
        if "compact" in properties.get("cleanup.policy", ""):
            raise SettingsError(
                f"topic {one.topic}: its cleanup.policy is {properties['cleanup.policy']}, which keeps one record of a "
                "session; set it to delete on the cluster"
            )


def check(kafka: KafkaSettings, *, created: Collection[str] = ()) -> list[TopicState]:
    """The topics as they are. Blocks; raises as `ensure` does, and SettingsError for a topic that is missing."""
    found = _described(config.made(AdminClient, config.client(kafka)), kafka).topics
    states = []
    for one in _wanted(kafka):
        if one.topic not in found:
            raise SettingsError(f"topic {one.topic}: the cluster has none; type: streamscribe topics ensure")
        parts = found[one.topic].partitions.values()
        partitions = len(parts)
        replication = min((len(part.replicas) for part in parts), default=0)
        if partitions != one.partitions:
            hint = f"type --set kafka.{one.setting}={partitions}, or use" if one.setting else "use"
            raise SettingsError(
                f"topic {one.topic}: it has {partitions} partitions, and the settings say {one.partitions}; a "
                f"session's records stay in order only while the count stays: {hint} another kafka.topic_prefix"
            )
        if replication != kafka.replication:
            raise SettingsError(
                f"topic {one.topic}: it lies on {replication} of the brokers, and setting kafka.replication says "
                f"{kafka.replication}; type: --set kafka.replication={replication}"
            )
        states.append(TopicState(one.topic, partitions, replication, one.topic in created))
    return states


def min_session_timeout_ms(kafka: KafkaSettings) -> int | None:
    """The least session timeout that the cluster's first broker allows; None where it does not say. Blocks."""
    admin = config.made(AdminClient, config.client(kafka))
    broker = min(_described(admin, kafka).brokers)
    (told,) = _properties(admin, [ConfigResource(ResourceType.BROKER, str(broker))])
    least_ms = told.get("group.min.session.timeout.ms")
    return None if least_ms is None else int(least_ms)


def _properties(admin: AdminClient, of: list[ConfigResource]) -> list[dict[str, str]]:
    """What the brokers tell of each of these."""
    asked = admin.describe_configs(of, request_timeout=PATIENCE_S)
    try:
        found = [asked[one].result(PATIENCE_S) for one in of]
    except (KafkaException, TimeoutError) as error:
        if _is_late(error):
            raise BusUnavailable(f"a broker did not tell its settings in time; {ADVERTISED}") from None
        raise BusUnavailable(f"the brokers' settings cannot be read: {config.explain(error)}") from None
    return [{name: entry.value for name, entry in one.items() if entry.value is not None} for one in found]


def _wanted(kafka: KafkaSettings) -> list[_Wanted]:
    topics = Topics.of(kafka)
    return [
        _Wanted(topics.audio, kafka.audio_partitions, "audio_partitions"),
        _Wanted(topics.results, kafka.result_partitions, "result_partitions"),
        _Wanted(topics.finalize, kafka.finalize_partitions, "finalize_partitions", MAX_REQUEST_BYTES),
        _Wanted(topics.finals, kafka.audio_partitions, "audio_partitions"),
        _Wanted(topics.dead_letter, 1),
    ]


def _described(admin: AdminClient, kafka: KafkaSettings) -> Any:
    try:
        return admin.list_topics(timeout=PATIENCE_S)
    except KafkaException as error:
        raise BusUnavailable(
            f"no broker answers at {kafka.brokers}: {config.explain(error)}; is it started? give another by "
            "KAFKA_BROKERS"
        ) from None


def _was_created(topic: str, future: Any) -> bool:
    try:
        future.result(PATIENCE_S)
    except (KafkaException, TimeoutError) as error:
        if _is_late(error):
            raise BusUnavailable(f"topic {topic}: it was not said in time that it is made; {ADVERTISED}") from None
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another was quicker
            return False
        raise SettingsError(f"topic {topic}: the cluster did not make it: {config.explain(error)}") from None
    return True


def _is_late(error: Exception) -> bool:
    """Whether it is that no answer came: librdkafka gives up after as long as we do, so either may say so."""
    return not isinstance(error, KafkaException) or error.args[0].code() == KafkaError._TIMED_OUT
