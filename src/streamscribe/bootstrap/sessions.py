"""The session store of a process, from its settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from streamscribe.bootstrap.extras import need_extras
from streamscribe.core.errors import StoreUnavailable
from streamscribe.redis_url import UnusableAddress
from streamscribe.settings import Settings, SettingsError, StoreSettings

if TYPE_CHECKING:
    from streamscribe.store.redis_attempts import RedisAttempts
    from streamscribe.store.redis_server import RedisServer
    from streamscribe.store.redis_sessions import RedisSessions

REDIS_PORT = 6379
PATIENCE_S = 5.0
"""For people, who wait for an answer longer than a stream may."""


def open_shared_sessions(settings: StoreSettings, timeout_s: float | None = None) -> "RedisSessions":
    """The store that all processes share; `timeout_s` in place of the setting.

    Raises SettingsError where none is named, or the address is none.
    """
    url = _redis_url(settings)
    from streamscribe.store.redis_sessions import RedisSessions

    try:
        return RedisSessions(
            url,
            lease_ttl_s=settings.lease_ttl_s,
            seat_ttl_s=settings.seat_ttl_s,
            keep_s=settings.keep_s,
            timeout_s=timeout_s or settings.timeout_s,
            max_connections=settings.max_connections,
        )
    except UnusableAddress as error:
        raise SettingsError(f"setting store.redis_url: {error}") from None


@asynccontextmanager
async def patient_sessions(settings: StoreSettings) -> "AsyncIterator[RedisSessions]":
    """The same store with a person's patience, for a start: who starts is slow himself. Its Redis takes writes.

    Raises SettingsError as `open_shared_sessions` does, and StoreUnavailable with what to do next.
    """
    store = open_shared_sessions(settings, PATIENCE_S)
    try:
        await store.check()
        yield store
    finally:
        await store.close()


async def check_shared_sessions(settings: StoreSettings) -> None:
    """Returns when their Redis takes what is written. Raises what `patient_sessions` does."""
    async with patient_sessions(settings):
        pass


def open_attempts(settings: StoreSettings) -> "RedisAttempts":
    """The counters of what finalizers try, in the same Redis. Raises SettingsError as `open_shared_sessions` does."""
    url = _redis_url(settings)
    from streamscribe.store.redis_attempts import RedisAttempts

    try:
        return RedisAttempts(url, timeout_s=settings.timeout_s, max_connections=settings.max_connections)
    except UnusableAddress as error:
        raise SettingsError(f"setting store.redis_url: {error}") from None


def need_cluster(settings: Settings) -> None:
    """Raises SettingsError where neither Kafka nor Redis is named, or the client of one is not installed.

    One who lacks both is told of both at once.
    """
    if not settings.kafka.brokers and settings.store.redis_url is None:
        raise SettingsError(
            "settings kafka.brokers and store.redis_url: neither a Kafka nor a Redis is named; set KAFKA_BROKERS and "
            "REDIS_URL. For a cluster on this machine that brings its own: streamscribe cluster up"
        )
    need_extras("a cluster", "kafka", "redis")


def _redis_url(settings: StoreSettings) -> str:
    """Raises SettingsError where none is named, or its client is not installed."""
    if settings.redis_url is None:
        raise SettingsError(
            "setting store.redis_url: no Redis is named; set REDIS_URL, or type --set store.redis_url=redis://host:6379/0"
        )
    need_extras("setting store.redis_url", "redis")
    return settings.redis_url.get_secret_value()


def explain(error: StoreUnavailable) -> str:
    """What is wrong with the store, for who runs it; the error's own text may be for clients."""
    return str(error.__cause__ or error.message)


def place_of(settings: StoreSettings) -> str:
    """Where the Redis of the settings is, for who runs it: without its user and password."""
    address = urlsplit(_redis_url(settings))
    return f"{address.hostname}:{address.port or REDIS_PORT}" if address.hostname else address.path


async def examine(settings: StoreSettings) -> "RedisServer":
    """What the Redis of the settings says of itself. Raises SettingsError and StoreUnavailable."""
    store = open_shared_sessions(settings, PATIENCE_S)
    try:
        return await store.server()
    finally:
        await store.close()
