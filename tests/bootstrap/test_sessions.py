"""The session store that settings ask for."""

import sys
from collections.abc import Callable

import pytest
from pydantic import SecretStr

from streamscribe.bootstrap.sessions import need_cluster, open_attempts, open_shared_sessions
from streamscribe.core.errors import StoreUnavailable
from streamscribe.settings import KafkaSettings, Settings, SettingsError, StoreSettings
from streamscribe.store.redis_server import server_of
from streamscribe.store.redis_sessions import RedisSessions


def test_without_a_redis_no_sessions_are_shared() -> None:
    with pytest.raises(SettingsError, match="no Redis is named"):
        open_shared_sessions(StoreSettings())


async def test_a_redis_that_is_named_is_shared_and_asked_only_when_it_is_used() -> None:
    store = open_shared_sessions(StoreSettings(redis_url=SecretStr("redis://127.0.0.1:9/0")))
    assert isinstance(store, RedisSessions)
    await store.close()


def test_an_address_that_is_none_is_told_without_its_password() -> None:
    with pytest.raises(SettingsError, match=r"^setting store\.redis_url: not an address") as refused:
        open_shared_sessions(StoreSettings(redis_url=SecretStr("http://:hunter2@host")))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "trouble"),
    [
        ("redis://:hunter2@host?no_such_option=1", "an option that is not taken"),
        ("redis://:hunter2@host?decode_responses=true", "decode_responses must be off"),
        ("redis://:hunter2@ho..st", "its host is no name"),
        ("redis://host:hunter2", "not an address"),
        ("redis://host?db=hunter2", "not an address"),
        ("redis://host?max_connections=7", "an option that is not taken"),
        ("rediss://host?ssl_cert_reqs=hunter2", "a value that is none"),
        ("rediss://host?ssl_keyfile=/hunter2", "its certificates, key"),
    ],
)
@pytest.mark.parametrize("opened", [open_shared_sessions, open_attempts])
def test_an_address_by_which_none_can_connect_is_told_before_anybody_relies_on_it(
    opened: Callable[[StoreSettings], object], address: str, trouble: str
) -> None:
    with pytest.raises(SettingsError, match=rf"^setting store\.redis_url: .*{trouble}") as refused:
        opened(StoreSettings(redis_url=SecretStr(address)))
    assert "hunter2" not in str(refused.value)


async def test_a_redis_that_is_not_there_at_the_start_is_named_without_its_password() -> None:
    store = open_shared_sessions(StoreSettings(redis_url=SecretStr("redis://:hunter2@127.0.0.1:1/0"), timeout_s=5))
    with pytest.raises(StoreUnavailable, match=r"^Redis cannot be reached \(127\.0\.0\.1:1\); is it started\? type: "):
        await store.check()
    await store.close()


def test_who_has_neither_kafka_nor_redis_is_told_of_both_at_once() -> None:
    with pytest.raises(SettingsError, match=r"KAFKA_BROKERS and REDIS_URL.*streamscribe cluster up"):
        need_cluster(Settings())
    need_cluster(Settings(store=StoreSettings(redis_url=SecretStr("redis://host"))))  # then Kafka is named as missing


def test_who_lacks_the_packages_of_both_is_told_of_both_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in "confluent_kafka", "redis":
        monkeypatch.setitem(sys.modules, package, None)
    named = Settings(kafka=KafkaSettings(brokers="host:9092"), store=StoreSettings(redis_url=SecretStr("redis://host")))
    with pytest.raises(SettingsError, match=r"pip install -e '\.\[kafka,redis\]'$"):
        need_cluster(named)


@pytest.mark.parametrize(
    ("changed", "trouble"),
    [
        ({}, None),
        ({"redis_version": "8.2.1", "maxmemory": 10**9}, None),
        ({"redis_version": "6.2.14"}, "version 6.2.14; the store needs 7.0 or later"),
        ({"role": "slave"}, "a replica"),
        ({"maxmemory_policy": "allkeys-lru"}, "maxmemory-policy is allkeys-lru"),
    ],
)
def test_a_redis_is_fit_or_it_is_said_why_not(changed: dict[str, object], trouble: str | None) -> None:
    fit = {
        "redis_version": "7.0.15",
        "role": "master",
        "used_memory": 1,
        "maxmemory": 0,
        "maxmemory_policy": "noeviction",
    }
    told = server_of(fit | changed).trouble
    assert (told is None) == (trouble is None)
    assert told is None or told.startswith(trouble or "")
