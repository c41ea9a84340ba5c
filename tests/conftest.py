"""Fixtures of the whole suite."""

from pathlib import Path

import hypothesis
import pytest

from streamscribe.settings import load

hypothesis.settings.register_profile("house", deadline=None)  # no test depends on the machine's speed
hypothesis.settings.load_profile("house")


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """Where the real models are installed: `STREAMSCRIBE_MODEL__DIR`, or the setting's default."""
    return load().model.dir.expanduser()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are granted most time begin first: at the end no process waits for another's longest."""
    items.sort(key=_granted_s, reverse=True)


def _granted_s(item: pytest.Item) -> float:
    granted = item.get_closest_marker("timeout")
    return float(granted.args[0]) if granted else 0.0
