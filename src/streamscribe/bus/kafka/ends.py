"""How far the partitions of a topic go, as the brokers say: those that are paused too, which no consumer knows."""

from collections.abc import Collection

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamscribe.bus.kafka import config, topics
from streamscribe.core.errors import BusUnavailable
from streamscribe.settings import KafkaSettings


class Ends:
    """Asks for the offset behind the newest record of each partition."""

    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        """Raises SettingsError for properties that librdkafka refuses."""
        self._admin = config.made(AdminClient, config.client(kafka))
        self._topic = topic

    def of(self, partitions: Collection[int]) -> dict[int, int]:
        """By partition; blocks. Raises BusUnavailable where no broker answers in time."""
        if not partitions:
            return {}
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(self._topic, number): latest for number in partitions}
        asked = self._admin.list_offsets(wanted, request_timeout=topics.PATIENCE_S)
        try:
            return {part.partition: told.result(2 * topics.PATIENCE_S).offset for part, told in asked.items()}
        except (KafkaException, TimeoutError) as error:
            raise BusUnavailable(f"no broker answers: {config.explain(error)}") from None
