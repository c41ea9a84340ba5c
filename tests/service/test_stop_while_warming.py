"""A server that gets a signal before its models are warm."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def server(port: int, fake_cost_ms: int, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """On the fake models."""
    flags = [
        "--port",
        str(port),
        "--funasr-port",
        "-1",
        "--profile",
        "fake",
        f"--set=model.fake_cost_ms={fake_cost_ms}",
    ]
    command = [sys.executable, "-m", *SERVE, *flags]
    surroundings = {**os.environ, **environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def warming(port: int) -> Iterator["subprocess.Popen[str]"]:
    """A server whose models take their time."""
    with server(port, RUN_MS) as process:
        yield process


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


HUNG_UP_WHILE_IMPORTING = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it, as nohup does
class HangUp:
    def find_spec(name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGHUP)
sys.meta_path.insert(0, HangUp)
"""


@pytest.mark.parametrize("module", ["streamscribe.cli.main", "typer", "uvloop", "streamscribe.bootstrap.server"])
async def test_a_server_that_is_to_read_its_settings_again_while_it_imports_does_so_when_it_is_ready(
    tmp_path: Path, port: int, module: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HUNG_UP_WHILE_IMPORTING.format(module=module))
    with server(port, 0, PYTHONPATH=str(tmp_path)) as process:
        assert process.stderr is not None
        while line := await asyncio.to_thread(process.stderr.readline):
            if "no model is to be replaced" in json.loads(line)["event"]:
                break
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.communicate)
        assert process.returncode == 0


def test_a_command_that_is_no_server_ends_when_its_terminal_does(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HUNG_UP_WHILE_IMPORTING.format(module="typer"))
    command = [sys.executable, "-m", "streamscribe.cli", "models", "list"]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == -signal.SIGHUP
