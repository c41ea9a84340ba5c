"""A server to attack."""

from collections.abc import Iterator

import pytest

from streamscribe.client.local_server import LocalServer, RunningServer


@pytest.fixture(scope="session")
def attacked() -> Iterator[RunningServer]:
    """A server on the fake models; it waits for handshakes less long than it would."""
    with LocalServer(["--profile", "fake", "--set", "gateway.handshake_timeout_s=2"]) as running:
        yield running
