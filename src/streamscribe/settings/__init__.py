"""One frozen, validated tree of settings. Sources, later wins: defaults, `streamscribe.yaml`, environment, flags.

Environment variables are `STREAMSCRIBE_` + path with `__` between levels (`STREAMSCRIBE_GATEWAY__PORT=8001`). Every
field has a unit in its name where it has one, and a documented bound; SECURITY.md's table is generated from here.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource
from pydantic_settings import SettingsError as SettingsSourceError

from streamscribe.core.nearest import did_you_mean
from streamscribe.settings import between
from streamscribe.settings.base import SettingsError
from streamscribe.settings.keeping import CacheSettings, FinalizerSettings, KafkaSettings, StoreSettings
from streamscribe.settings.serving import (
    GatewaySettings,
    LimitSettings,
    ModelSettings,
    ObserveSettings,
    WorkerSettings,
)

__all__ = [
    "CacheSettings",
    "FinalizerSettings",
    "GatewaySettings",
    "KafkaSettings",
    "LimitSettings",
    "ModelSettings",
    "ObserveSettings",
    "Settings",
    "SettingsError",
    "StoreSettings",
    "WorkerSettings",
    "load",
]

DEFAULT_FILE = Path("streamscribe.yaml")
MAY_BE_SECRET = frozenset({"redis_url", "options"})
"""Fields that may hold a password: no message tells their values, or a whole section's, as it may go into a log."""


class Settings(BaseSettings):
    """The whole tree; build it with `load`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="STREAMSCRIBE_", env_nested_delimiter="__", env_ignore_empty=True
    )

    gateway: GatewaySettings = GatewaySettings()
    limits: LimitSettings = LimitSettings()
    model: ModelSettings = ModelSettings()
    worker: WorkerSettings = WorkerSettings()
    cache: CacheSettings = CacheSettings()
    store: StoreSettings = StoreSettings()
    kafka: KafkaSettings = KafkaSettings()
    finalizer: FinalizerSettings = FinalizerSettings()
    observe: ObserveSettings = ObserveSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over environment over file."""
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)


def load(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Reads and validates the tree; `overrides` maps dotted paths (`gateway.port`) to values and wins over all.

    A `file` that is named must exist; without one, `streamscribe.yaml` of the working folder is read where it is there.
    The Redis of `REDIS_URL` is the store's, and the cache's too where texts are kept and the cache has no other.
    Raises SettingsError whose message is one line: field, what is wrong, what was given; or the fields that contradict
    each other.
    """
    if file is not None and not file.is_file():
        raise SettingsError(f"settings file {file}: no such file")

    class Loaded(Settings):
        model_config = SettingsConfigDict(yaml_file=file or DEFAULT_FILE, yaml_file_encoding="utf-8")

    flags = {_KEPT_NAMES[name]: value for name, value in os.environ.items() if name in _KEPT_NAMES and value}
    flags.update(overrides or {})
    try:
        settings = Loaded(**_nested(flags))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            told = f"setting {field}: there is none of this name; docs/settings.md has all"
            raise SettingsError(f"{told}{did_you_mean(field, _names())}") from None
        of_one_field = len(first["loc"]) > 1 and not MAY_BE_SECRET.intersection(first["loc"])
        given = f" (given: {repr(first['input'])[:80]})" if of_one_field else ""
        raise SettingsError(f"setting {field}: {' '.join(first['msg'].split())}{given}") from None
    except (yaml.YAMLError, SettingsSourceError, OSError, ValueError, TypeError) as error:
        raise SettingsError(f"settings file {file or DEFAULT_FILE}: {' '.join(str(error).split())}") from None
    between.check(settings)
    cache = settings.cache
    if cache.transcripts and cache.redis_url is None and os.environ.get("REDIS_URL"):
        shared = cache.model_copy(update={"redis_url": SecretStr(os.environ["REDIS_URL"])})
        return settings.model_copy(update={"cache": shared})
    return settings


_KEPT_NAMES = {
    "MAX_BATCH_SIZE": "model.max_batch_size",
    "BATCH_WAIT_MS": "model.batch_wait_ms",
    "MAX_INFLIGHT": "model.max_inflight",
    "REDIS_URL": "store.redis_url",
    "KAFKA_BROKERS": "kafka.brokers",
}
"""Environment names that operators know already; `REDIS_URL` lends its Redis to the cache too, as `load` says."""


def _names() -> Iterator[str]:
    """The dotted paths of all sections and settings."""
    for section, info in Settings.model_fields.items():
        yield section
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from (f"{section}.{name}" for name in info.annotation.model_fields)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return tree
