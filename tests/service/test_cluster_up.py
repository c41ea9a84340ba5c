"""`streamscribe cluster up`: a cluster by one command, whose roles may die, and which ends in order."""

import asyncio
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamscribe.bootstrap.cluster.plan import Plan, surroundings
from streamscribe.client.address import websocket_url
from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from streamscribe.settings import load
from streamscribe.wire.native_server import ClosedMessage, ErrorMessage, ResultMessage
from tests.contracts.redis_server import redis_server
from tests.service.kit import cut, noise_speech

pytestmark = pytest.mark.timeout(150)

PACKET_BYTES = 6400
SPEECH = [noise_speech(8000 + number) for number in range(3)]
FLAGS = (
    "--profile=fake", "--port=0", "--funasr-port=0", "--set=model.fake_cost_ms=20", "--set=limits.max_newcomers=1000",
    "--set=limits.max_lag_ms=60000", "--set=store.timeout_s=2", "--set=observe.log_level=warning",
)  # fmt: skip

NO_WORKER = "no worker is ready"

Told = list[tuple[int, int, str, int, int]]


@dataclass
class Up:
    """The running command, what it said first, and its standard error."""

    process: "subprocess.Popen[str]"
    ready: dict[str, Any]
    errors: Path

    def heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        return said

    def roles(self, kind: str) -> list[dict[str, Any]]:
        return [role for role in self.ready["roles"] if role["name"].startswith(kind)]


def start(*flags: str, errors: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "streamscribe.cli", "cluster", "up", "--json", *FLAGS, *flags]
    with errors.open("w") as file:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)


@contextmanager
def cluster_up(folder: Path, *flags: str) -> Iterator[Up]:
    errors = folder / "errors"
    process = start(*flags, errors=errors)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, errors.read_text()[-3000:]
        yield Up(process, json.loads(line), errors)
    finally:
        process.kill()
        process.communicate()


async def spoken(url: str, pcm: bytes, packet_s: float = 0.1) -> Told:
    """The finals that a client hears who speaks at twice real time; no error, and a regular end."""
    async with NativeClient(websocket_url(url)) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for packet in cut(pcm, PACKET_BYTES):
                await client.send(packet)
                await asyncio.sleep(packet_s)
            await client.end()

        tasks.create_task(speak())
        said = [message async for message in client]
    assert not [message for message in said if isinstance(message, ErrorMessage)]
    assert isinstance(said[-1], ClosedMessage)
    results = [message for message in said if isinstance(message, ResultMessage) and message.is_final]
    return sorted((r.segment_id, r.pass_, r.text, r.start_ms, r.end_ms) for r in results)


async def when_let_in(speak: Callable[[], Awaitable[Told]]) -> Told:
    """What a client hears that comes again when it is told to: the only worker counts as gone when it could say nothing
    for two seconds, as on a busy machine, and nobody is let in meanwhile."""
    while True:
        try:
            return await speak()
        except* ServerError as refused:
            if refused.subgroup(lambda error: isinstance(error, ServerError) and error.error.message != NO_WORKER):
                raise
        await asyncio.sleep(0.2)


async def all_spoken(url: str, packet_s: float = 0.1) -> list[Told]:
    return await asyncio.gather(*(when_let_in(partial(spoken, url, pcm, packet_s)) for pcm in SPEECH))


async def shared(up: Up) -> None:
    """Returns when the workers have shared the partitions: the test broker never ends a join that another crosses."""
    async with httpx.AsyncClient(timeout=None) as http:

        async def partitions(url: str) -> float:
            text = (await http.get(f"{url}/metrics")).text
            return sum(map(float, re.findall(r"^streamscribe_bus_partitions (\S+)$", text, re.MULTILINE)))

        while {await partitions(worker["url"]) for worker in up.roles("worker")} != {4.0}:
            await asyncio.sleep(0.1)


def beside(up: Up, *command: str) -> "subprocess.CompletedProcess[str]":
    """A command that is run in another shell, as the cluster says."""
    environment = {**os.environ, **up.ready["environment"]}
    words = [sys.executable, "-m", "streamscribe.cli", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_cluster_of_one_command_loses_nothing_with_a_worker_starts_it_again_and_ends_in_order(
    tmp_path: Path,
) -> None:
    with cluster_up(tmp_path) as up:
        assert [role["name"] for role in up.ready["roles"]] == ["gateway-0", "gateway-1", "worker-0", "worker-1"]
        url = up.ready["url"]
        await shared(up)
        alone = await all_spoken(url, packet_s=0.0)
        assert all(len(told) >= 3 for told in alone)
        talking = asyncio.create_task(all_spoken(url))
        await asyncio.sleep(1.0)
        os.kill(up.roles("worker")[0]["pid"], signal.SIGKILL)
        ended, again = await asyncio.to_thread(up.heard), await asyncio.to_thread(up.heard)
        assert (ended["event"], ended["name"], ended["exit_code"]) == ("role_ended", "worker-0", -signal.SIGKILL)
        assert (again["event"], again["name"]) == ("role_ready", "worker-0")
        assert await talking == alone
        up.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(up.process.wait) == 0, up.errors.read_text()[-3000:]
        assert not [role for role in up.ready["roles"] if alive(role["pid"])]


@pytest.mark.timeout(300)
async def test_connections_are_spread_over_the_gateways_and_go_to_those_that_are_fit(tmp_path: Path) -> None:
    with cluster_up(tmp_path, "--workers=1", "--finalizers=1") as up:
        url, gateways = up.ready["url"], [role["url"] for role in up.roles("gateway")]
        assert len(up.roles("finalizer")) == 1
        for pid in (up.process.pid, up.roles("finalizer")[0]["pid"]):
            os.kill(pid, signal.SIGHUP)  # which ends nobody
        assert all(len(told) >= 3 for told in await all_spoken(url, packet_s=0.0))
        for command in ["doctor", "--set=gateway.port=0", "--set=gateway.funasr_port=-1"], ["sessions", "list"]:
            asked = await asyncio.to_thread(beside, up, *command)
            assert asked.returncode == 0, asked.stdout + asked.stderr
            if command[0] == "doctor":
                assert re.search(r"^✓ gateways: 2: \S+ \(number \d+\), \S+ \(number", asked.stdout, re.MULTILINE)
                assert re.search(r"^✓ workers: 1: \S+ \(partitions 0-\d+\)$", asked.stdout, re.MULTILINE)
                assert re.search(r"^✓ finalizers: 1: finalizer-\S+$", asked.stdout, re.MULTILINE)
                assert "✓ partitions of audio-chunks: each has a worker" in asked.stdout
        async with httpx.AsyncClient(timeout=None) as http:
            assert (await http.delete(f"{url}/v1/cache")).json()["workers"] == 2  # finalizers keep things too
            pages = [(await http.get(f"{gateway}/metrics")).text for gateway in gateways]
        assert all(re.search(r"^funasr_active_sessions", page, re.MULTILINE) for page in pages)
        os.kill(up.roles("gateway")[0]["pid"], signal.SIGKILL)
        assert (await asyncio.to_thread(up.heard))["event"] == "role_ended"
        assert all(len(told) >= 3 for told in await all_spoken(url, packet_s=0.0))
        os.kill(up.roles("worker")[0]["pid"], signal.SIGSTOP)
        async with httpx.AsyncClient(timeout=None) as http:  # somebody is there who says what is lacking
            while (answer := await http.get(f"{url}/readyz")).status_code == 200:
                await asyncio.sleep(0.1)
        assert answer.json()["waiting_for"] == ["workers"]
        os.kill(up.roles("worker")[0]["pid"], signal.SIGCONT)
        assert all(len(told) >= 3 for told in await all_spoken(url, packet_s=0.0))
        os.kill(up.roles("worker")[0]["pid"], signal.SIGSTOP)
        up.process.kill()
        up.process.wait()
        while any(alive(role["pid"]) for role in up.ready["roles"][1:]):
            await asyncio.sleep(0.05)


async def test_a_hangup_while_it_starts_reaches_its_workers_once_they_are_ready(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    process = start("--set=model.fake_cost_ms=300", "--set=observe.log_level=info", errors=errors)
    try:
        while "starting 2 gateways" not in errors.read_text():
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGHUP)
        workers: list[str] = []
        while len(workers) < 2:
            await asyncio.sleep(0.2)
            assert process.poll() is None, errors.read_text()[-3000:]
            workers = re.findall(r"^(worker-\d) .*no model is to be replaced", errors.read_text(), re.MULTILINE)
        assert set(workers) == {"worker-0", "worker-1"}
    finally:
        process.kill()
        process.communicate()


def test_a_terminal_that_is_closed_ends_it_in_order(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "streamscribe.cli", "cluster", "up", *FLAGS, "--workers=1", "--gateways=1"]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    try:
        os.close(theirs)
        said = b""
        while b"export KAFKA" not in said:
            said += os.read(ours, 4096)
        pids = list(map(int, re.findall(rb"http\S+  process (\d+)", said)))
        assert len(pids) == 2
        os.close(ours)
        assert process.wait() == 0
        assert not [pid for pid in pids if alive(pid)]
    finally:
        process.kill()
        process.wait()


def test_what_commands_beside_it_need_is_told_without_a_password() -> None:
    plan = Plan(gateways=1, workers=1, finalizers=1, options=())
    named = {"kafka.brokers": "[::1]:9092", "model.profile": "tiny", "gateway.tenants_file": "tenants.yaml"}
    told = surroundings(load(None, {**named, "store.redis_url": "redis://redis:6379/1"}), plan)
    assert (told["KAFKA_BROKERS"], told["REDIS_URL"]) == ("[::1]:9092", "redis://redis:6379/1")
    assert (told["STREAMSCRIBE_MODEL__PROFILE"], told["STREAMSCRIBE_FINALIZER__ENABLED"]) == ("tiny", "true")
    assert told["STREAMSCRIBE_KAFKA__AUDIO_PARTITIONS"] == "64"
    assert told["STREAMSCRIBE_GATEWAY__TENANTS_FILE"] == str(Path("tenants.yaml").absolute())
    for secret in "redis://:hunter2@redis:6379/1", "unix:///run/redis.sock?password=hunter2":
        told = surroundings(load(None, {**named, "store.redis_url": secret}), plan)
        assert "REDIS_URL" not in told
        assert "hunter2" not in str(told)


def ended(folder: Path, *flags: str, path: str | None = None) -> tuple[int, str]:
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    command = [sys.executable, "-m", "streamscribe.cli", "cluster", "up", *FLAGS, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return done.returncode, done.stderr


def test_what_a_cluster_cannot_be_is_said_before_anything_starts(tmp_path: Path) -> None:
    code, said = ended(tmp_path, path="/nowhere")
    assert code == 2
    assert "redis-server" in said
    assert "--redis" in said
    code, said = ended(tmp_path, "--kafka=localhost:1", "--gateways=3", "--set=kafka.result_partitions=2")
    assert (code, "kafka.result_partitions is 2; start fewer, or give them more: docs/kafka.md" in said) == (2, True)


@pytest.mark.parametrize(
    ("wrong", "code", "told"),
    [
        ("--redis=http://host", 2, "--redis: not an address like redis://host:6379/0"),
        ("--redis=redis://:hunter2@localhost:1/0", 1, "is it started? type: redis-server, or give another by --redis"),
        ("--kafka=http://host", 2, "--kafka: not addresses like kafka-1:9092,kafka-2:9092"),
        ("--kafka=localhost:1", 1, "is it started? give another by --kafka\n"),
        (
            "--tenants=none.yaml",
            2,
            "--tenants: none.yaml: No such file or directory; make it by: streamscribe keys new",
        ),
    ],
)
def test_what_a_cluster_is_given_and_cannot_use_is_said_once_by_the_flag_that_was_typed_before_anything_starts(
    tmp_path: Path, wrong: str, code: int, told: str
) -> None:
    ended_with, said = ended(tmp_path, wrong)
    assert (ended_with, said.count("error: "), "starting" in said) == (code, 1, False)
    assert told in said
    assert "hunter2" not in said


def test_a_port_that_is_taken_and_a_broker_that_does_not_answer_are_said(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis_url:
        port = redis_url.rpartition(":")[2].partition("/")[0]
        code, said = ended(tmp_path, f"--port={port}", f"--redis={redis_url}")
        assert code == 2
        assert f"port {port}" in said
        assert f"--port {int(port) + 1}" in said
        code, said = ended(tmp_path, "--kafka=localhost:1", f"--redis={redis_url}")
        assert code == 1
        assert "no broker" in said
