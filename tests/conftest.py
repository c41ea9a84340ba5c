"""Fixtures of the whole suite."""

from pathlib import Path

import pytest

from streamscribe.settings import load


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """Where the real models are installed: `STREAMSCRIBE_MODEL__DIR`, or the setting's default."""
    return load().model.dir.expanduser()
