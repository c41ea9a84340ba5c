"""A server that gets a signal before its models are warm."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from streamscribe.client.local_server import SERVE

pytestmark = pytest.mark.timeout(120)

RUN_MS = 1000
"""Of each of the three runs of the fake recogniser's warm-up."""


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def warming(port: int) -> Iterator["subprocess.Popen[str]"]:
    """A server on the fake models, slowed down."""
    flags = ["--port", str(port), "--funasr-port", "-1", "--profile", "fake", f"--set=model.fake_cost_ms={RUN_MS}"]
    command = [sys.executable, "-m", *SERVE, *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


async def answer(port: int, path: str) -> int:
    """The status, once the server listens."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None) as http:
        while True:
            try:
                return (await http.get(path)).status_code
            except httpx.ConnectError:
                await asyncio.sleep(0.02)


async def test_a_server_that_is_told_to_stop_while_it_warms_ends_without_having_been_ready(
    warming: "subprocess.Popen[str]", port: int
) -> None:
    assert await answer(port, "/readyz") == 503
    warming.send_signal(signal.SIGTERM)
    told, log = await asyncio.to_thread(warming.communicate)
    assert warming.returncode == 0
    assert told == ""
    assert {json.loads(line)["level"] for line in log.splitlines()} == {"info"}


async def test_a_server_that_is_to_read_its_settings_again_while_it_warms_does_so_when_it_is_ready(
    warming: "subprocess.Popen[str]", port: int
) -> None:
    assert await answer(port, "/readyz") == 503
    warming.send_signal(signal.SIGHUP)
    while await answer(port, "/readyz") != 200:
        await asyncio.sleep(0.1)
    warming.send_signal(signal.SIGTERM)
    _, log = await asyncio.to_thread(warming.communicate)
    assert warming.returncode == 0
    assert any("no model is to be replaced" in json.loads(line)["event"] for line in log.splitlines())
