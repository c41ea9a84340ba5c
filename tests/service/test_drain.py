"""A server that is told to stop: nobody new comes in, nothing that was said is lost, and it ends with code 0."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.core.options import Mode
from tests.service.conftest import EVERYBODY
from tests.service.kit import END, cut, ending, finals_of, noise_speech, session, told, wav

pytestmark = pytest.mark.timeout(60)

SPEECH = noise_speech(4000)


@contextmanager
def logged_server(folder: Path, *settings: str) -> Iterator[tuple[RunningServer, Path]]:
    """A server on the fake models, and the file of its log."""
    log = folder / "log"
    flags = [flag for setting in settings for flag in ("--set", setting)]
    with log.open("w") as file, LocalServer(["--profile", "fake", *EVERYBODY, *flags], log=file) as running:
        yield running, log


async def exit_code(server: RunningServer) -> int:
    return await asyncio.to_thread(server.process.wait, 20)


def check_log(log: Path) -> list[dict[str, Any]]:
    """Lines of JSON only, hence no traceback, and none that complains."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert not [line for line in lines if line["level"] in ("error", "critical")]
    return lines


async def test_a_drain_lets_nobody_in_and_loses_nothing(tmp_path: Path) -> None:
    with logged_server(tmp_path) as (server, log):
        url, http_url = server.address.websocket, server.address.http
        expected = [final.text for final in finals_of(await session(url, cut(SPEECH, 32_000), mode=Mode.OFFLINE))]
        half = len(SPEECH) // 2
        async with (
            connect(url, compression=None) as speaking,
            connect(url, compression=None) as silent,
            httpx.AsyncClient(base_url=http_url, timeout=None) as http,
        ):
            await speaking.send(SPEECH[:half])
            await told(speaking, "result")
            await told(silent, "connected")
            server.process.send_signal(signal.SIGTERM)
            for socket in (speaking, silent):
                go_away = await told(socket, "go_away")
                assert go_away["deadline_ms"] > 0
                assert go_away["retry_after_ms"] > 0

            ready = await http.get("/readyz")
            assert (ready.status_code, ready.json()["waiting_for"]) == (503, ["drain"])
            assert (await http.get("/healthz")).status_code == 200
            for address in (url, f"{server.address.funasr}/", f"{http_url.replace('http', 'ws', 1)}/"):
                with pytest.raises(InvalidStatus) as refused:
                    await connect(address)
                assert refused.value.response.status_code == 503
                assert int(refused.value.response.headers["Retry-After"]) > 0
            upload = await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"RIFF")})
            assert (upload.status_code, upload.json()["error"]["code"]) == (503, "draining")
            assert int(upload.headers["Retry-After"]) > 0

            await silent.send(END)
            assert (await ending(silent))[1] == 1000
            await speaking.send(SPEECH[half:])
            await speaking.send(END)
            said, code, _ = await ending(speaking)
        assert code == 1000
        assert said[-1]["type"] == "closed"
        texts = [message["text"] for message in said if message.get("is_final")]
        assert texts == expected[len(expected) - len(texts) :]
        assert len(texts) >= 2
        assert await exit_code(server) == 0
        check_log(log)


async def test_files_that_are_being_recognised_are_finished(tmp_path: Path) -> None:
    with logged_server(tmp_path, "model.fake_cost_ms=200") as (server, log):
        async with httpx.AsyncClient(base_url=server.address.http, timeout=30) as http:
            sent = http.post(
                "/v1/audio/transcriptions", files={"file": wav(noise_speech(4001, bursts=8))}, data={"stream": "true"}
            )
            asked = asyncio.create_task(sent)
            while "default" not in (await http.get("/metrics")).text:
                await asyncio.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            answer = await asked
        assert answer.status_code == 200
        assert "transcript.text.done" in answer.text
        assert await exit_code(server) == 0
        check_log(log)


async def test_sessions_that_stay_are_closed_1012_at_the_deadline(tmp_path: Path) -> None:
    with logged_server(tmp_path, "gateway.drain_timeout_s=0.2") as (server, log):
        async with connect(server.address.websocket, compression=None) as socket:
            await socket.send(SPEECH[:32_000])
            await told(socket, "connected")
            server.process.send_signal(signal.SIGTERM)
            said, code, _ = await ending(socket)
        assert (said[-1]["name"], code) == ("draining", 1012)
        assert await exit_code(server) == 0
        assert "sessions closed at the drain deadline" in [line["event"] for line in check_log(log)]


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once(first: signal.Signals, second: signal.Signals, tmp_path: Path) -> None:
    with logged_server(tmp_path) as (server, log):
        async with connect(server.address.websocket, compression=None) as socket:
            await socket.send(SPEECH[:32_000])
            await told(socket, "connected")
            server.process.send_signal(first)
            await told(socket, "go_away")
            server.process.send_signal(second)
            assert await exit_code(server) == -second
        check_log(log)


@pytest.mark.parametrize("workers", [0, 1])
async def test_an_operator_on_this_machine_drains_as_a_signal_does(tmp_path: Path, workers: int) -> None:
    settings = (f"worker.processes={workers}", "gateway.drain_timeout_s=5")
    with logged_server(tmp_path, *settings) as (server, _):
        async with (
            httpx.AsyncClient(base_url=server.address.http, timeout=None) as http,
            connect(server.address.websocket, compression=None) as socket,
        ):
            await told(socket, "connected")
            answer = await http.post("/admin/drain")
            assert (answer.status_code, answer.json()["sessions"]) == (202, 1)
            await told(socket, "go_away")
            assert (await http.get("/readyz")).status_code == 503
            assert (await http.post("/admin/drain")).status_code == 202
            await socket.send(SPEECH[:32_000])
            await socket.send(END)
            assert (await ending(socket))[1] == 1000
        assert await exit_code(server) == 0
