"""A server to attack."""

from collections.abc import Iterator

import pytest

from streamscribe.client.local_server import LocalServer, RunningServer
from tests.service.conftest import EVERYBODY


@pytest.fixture(scope="session")
def attacked() -> Iterator[RunningServer]:
    """A server on the fake models; it waits less long than it would, and reads faster."""
    limits = ("gateway.handshake_timeout_s=2", "limits.slow_reader_timeout_s=1", "limits.max_chunks_per_s=100000")
    with LocalServer(
        ["--profile", "fake", *(flag for limit in limits for flag in ("--set", limit)), *EVERYBODY]
    ) as running:
        yield running
