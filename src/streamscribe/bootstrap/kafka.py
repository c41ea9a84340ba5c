"""Kafka for commands and processes: whether its client is here, its topics, and what of the cluster needs a hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from streamscribe.bootstrap.extras import need_extras
from streamscribe.bootstrap.finding import Finding
from streamscribe.bootstrap.sessions import explain
from streamscribe.core.errors import BusUnavailable, StoreUnavailable
from streamscribe.settings import Settings, SettingsError

if TYPE_CHECKING:
    from streamscribe.bus.kafka.topics import TopicState

ENSURE = "streamscribe topics ensure"
TOPICS = "Kafka topics"
"""The finding of them; well where they are as the settings say."""


def ensure_topics(settings: Settings) -> "list[TopicState]":
    """Makes the topics that are missing; see `bus.kafka.topics.ensure`. Blocks."""
    need_extras("setting kafka.brokers", "kafka")
    from streamscribe.bus.kafka import topics

    return topics.ensure(settings.kafka, settings.limits.max_message_bytes)


@asynccontextmanager
async def kafka_told_too(settings: Settings) -> AsyncIterator[None]:
    """Within it a starting role asks its Redis: where that does not answer, the named Kafka is asked too, and
    StoreUnavailable tells of both. Who has neither started is not told of one after the other."""
    try:
        yield
    except StoreUnavailable as error:
        from streamscribe.bus.kafka import topics

        try:
            if settings.kafka.brokers:
                await asyncio.to_thread(topics.check, settings.kafka)
        except (BusUnavailable, SettingsError) as other:
            raise StoreUnavailable(f"{explain(error)}; and {other}") from None
        raise


def kafka_findings(settings: Settings) -> list[Finding]:
    """What `doctor` says of the cluster that the settings name, if they name one. Blocks."""
    if not settings.kafka.brokers:
        return []
    try:
        need_extras("setting kafka.brokers", "kafka")
        from streamscribe.bus.kafka import topics

        least_ms = topics.min_session_timeout_ms(settings.kafka)
    except (SettingsError, BusUnavailable) as error:
        return [Finding("Kafka", False, str(error))]
    try:
        states = topics.check(settings.kafka)
        topics.check_kept(settings.kafka, settings.limits.max_message_bytes)
        of_topics = Finding(TOPICS, True, ", ".join(f"{one.topic} ({one.partitions})" for one in states))
    except (SettingsError, BusUnavailable) as error:
        detail, missing, _ = str(error).partition(f"; type: {ENSURE}")
        of_topics = Finding(TOPICS, False, detail, ENSURE if missing else "")
    return [Finding("Kafka", True, "answers"), of_topics, _of_timeout(settings, least_ms)]


def _of_timeout(settings: Settings, least_ms: int | None) -> Finding:
    asked_ms = settings.kafka.session_timeout_ms
    name = "Kafka session timeout"
    if least_ms is None:
        return Finding(name, True, f"{asked_ms} ms; the brokers do not say what they allow", needed=False)
    if asked_ms < least_ms:
        detail = (
            f"the brokers refuse {asked_ms} ms: set group.min.session.timeout.ms={asked_ms} on them (now {least_ms})"
        )
        return Finding(name, False, detail, f"streamscribe doctor --set kafka.session_timeout_ms={least_ms}")
    return Finding(name, True, f"{asked_ms} ms; the brokers allow {least_ms}")
