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
