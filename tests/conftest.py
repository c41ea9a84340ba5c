"""Fixtures of the whole suite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from streamscribe.settings import load

hypothesis.settings.register_profile("house", deadline=None)  # no test depends on the machine's speed
hypothesis.settings.load_profile("house")


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """Where the real models are installed: `STREAMSCRIBE_MODEL__DIR`, or the setting's default."""
    return load().model.dir.expanduser()


@pytest.fixture(scope="session", autouse=True)
def forgetful_loggers() -> Iterator[None]:
    """No logger keeps what it was first used with: else a test that configures logs would do so for all behind it."""
    with pytest.MonkeyPatch.context() as patched:
        configure = structlog.configure

        def uncached(**settings: Any) -> None:
            configure(**settings | {"cache_logger_on_first_use": False})

        patched.setattr(structlog, "configure", uncached)
        yield


def pytest_runtest_teardown() -> None:
    """Logs that a test configured are its own."""
    structlog.reset_defaults()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are granted most time begin first: at the end no process waits for another's longest."""
    items.sort(key=_granted_s, reverse=True)


def _granted_s(item: pytest.Item) -> float:
    granted = item.get_closest_marker("timeout")
    return float(granted.args[0]) if granted else 0.0
