"""The load generator at a server process."""

import pytest

from streamscribe.bench.load import Latencies, open_session
from streamscribe.client.local_server import LocalServer

pytestmark = pytest.mark.timeout(120)


async def test_a_session_that_the_server_refuses_is_told_as_that_and_not_as_lost() -> None:
    latencies = Latencies()
    with LocalServer(["--profile", "fake", "--set=limits.max_sessions=1"]) as server:
        let_in = await open_session(server.address.websocket, latencies)
        with pytest.raises(ConnectionRefusedError, match="overloaded"):
            await open_session(server.address.websocket, latencies)
        let_in.end()
        await let_in.closed
    assert latencies.lost == 0
