"""Whole server processes on free loopback ports, one of each kind for the session."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.control.keys import new_key
from streamscribe.models.registry import open_verified
from streamscribe.settings import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def model_dir() -> Path:
    return load().model.dir.expanduser()


EVERYBODY = [
    "--set",
    "limits.max_utilisation=100",
    "--set",
    "limits.max_lag_ms=60000",
    "--set",
    "limits.max_newcomers=100000",
    "--set",
    "limits.decode_stall_s=600",
]
"""No session is refused for the load, and no file given up: nothing depends on the machine's speed."""


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """A server with the real models."""
    with LocalServer(EVERYBODY) as running:
        yield running


@pytest.fixture(scope="session")
def fake_server() -> Iterator[RunningServer]:
    """A server on the fake models: for what does not depend on text."""
    with LocalServer(["--profile", "fake", *EVERYBODY]) as running:
        yield running


@dataclass(frozen=True)
class Keyed:
    """A server with two tenants, each with a key; `acme` may have three sessions."""

    server: RunningServer
    tenants_file: Path
    acme: str
    other: str


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A server on the fake models that listens to all, and therefore wants keys."""
    file = tmp_path_factory.mktemp("keyed") / "tenants.yaml"
    acme, other = new_key(file, "acme", max_sessions=3), new_key(file, "other")
    with LocalServer(["--profile", "fake", "--host", "0.0.0.0", "--tenants", str(file), *EVERYBODY]) as running:
        yield Keyed(running, file, acme, other)


@pytest.fixture(scope="session")
def recordings(model_dir: Path) -> dict[str, Path]:
    """The catalogue's recordings by name."""
    return open_verified("demo-recordings", model_dir)


def shared_audio() -> Path | None:
    """Recordings that are not part of the project, where they are at hand."""
    folder = Path(os.environ.get("STREAMSCRIBE_SHARED_AUDIO", ROOT.parent / "shared" / "audio"))
    return folder if folder.is_dir() else None
