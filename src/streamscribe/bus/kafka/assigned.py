"""Consumers of one partition that no group gives away."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streamscribe.bus.kafka import config, topics
from streamscribe.core.errors import BusUnavailable
from streamscribe.settings import KafkaSettings


def at_end(
    kafka: KafkaSettings, group: str, topic: str, partition: int, max_message_bytes: int
) -> tuple[Consumer, int]:
    """A consumer at the end of a partition, and the offset there: what was told before was told to somebody else.

    Blocks. Raises BusUnavailable where no broker answers.
    """
    consumer: Consumer = config.made(Consumer, config.consumer(kafka, group, max_message_bytes))
    ours = TopicPartition(topic, partition)
    try:
        _, ours.offset = consumer.get_watermark_offsets(ours, timeout=topics.PATIENCE_S)
    except KafkaException as error:
        raise BusUnavailable(f"no broker answers: {config.explain(error)}") from None
    consumer.assign([ours])
    return consumer, ours.offset
