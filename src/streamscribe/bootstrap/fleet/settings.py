"""The settings of a worker process: the server's, with its share of the machine, over a private socket."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from streamscribe.bootstrap.threads import step_threads
from streamscribe.settings import Settings, SettingsError


def for_worker(settings: Settings) -> dict[str, Any]:
    """All settings as JSON has them, secrets in the clear; threads that nobody chose are the cores' share."""
    plain = _plain(settings)
    plain["model"]["threads"] = step_threads(settings.model, settings.worker.processes)
    return dict(plain)


def model_for_worker(settings: Settings) -> dict[str, Any]:
    """The section `model` of the same."""
    return dict(for_worker(settings)["model"])


def check(settings: Settings) -> None:
    """Raises SettingsError for what several processes cannot share."""
    for name in ("feature_cache_dir", "transcript_dir"):
        if getattr(settings.cache, name) is not None:
            message = f"cache.{name}: one process at a time uses a folder; worker processes share cache.redis_url"
            raise SettingsError(message)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return value
