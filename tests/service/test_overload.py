"""More speakers than the machine has time for: some are told to come back, at once, and the others are served well."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from streamscribe.client.local_server import LocalServer, RunningServer
from tests.service.kit import END, cut, ending, figure, noise_speech, until_no_session, wav

pytestmark = pytest.mark.timeout(180)

SPEAKERS = 24
EVERY_S = 0.7
BURSTS = 5
SECOND_BYTES = 32_000
SPEECH = [noise_speech(seed, bursts=BURSTS) for seed in range(SPEAKERS)]


@pytest.fixture
def slow_server() -> Iterator[RunningServer]:
    """A final takes 0.4 s and none shares its step: it has time for five or six speakers who say one every 2.2 s."""
    with LocalServer(
        ["--profile", "fake", "--set", "model.fake_cost_ms=400", "--set", "model.max_batch_size=1"]
    ) as running:
        yield running


@dataclass
class Heard:
    """What became of the speakers."""

    served: list[list[dict[str, Any]]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)


async def speak(url: str, speech: bytes, heard: Heard) -> None:
    """A client that speaks in real time, unless it is refused."""
    async with connect(url) as socket:
        greeting = json.loads(await socket.recv())
        if greeting["type"] == "error":
            heard.refused.append(greeting)
            said, code, _ = await ending(socket)
            assert said == []
            heard.codes[code] += 1
            return
        listening = asyncio.create_task(ending(socket))
        with suppress(ConnectionClosed):
            for packet in cut(speech, SECOND_BYTES // 5):
                await socket.send(packet)
                await asyncio.sleep(0.2)
            await socket.send(END)
        said, code, _ = await listening
        heard.served.append(said)
        heard.codes[code] += 1


async def test_beyond_the_capacity_some_are_refused_at_once_and_those_let_in_hear_all_their_finals(
    slow_server: RunningServer,
) -> None:
    url, heard, busiest = slow_server.address.websocket, Heard(), 0.0
    async with asyncio.TaskGroup() as tasks:
        for speech in SPEECH:
            tasks.create_task(speak(url, speech, heard))
            await asyncio.sleep(EVERY_S)
            busiest = max(busiest, await figure(slow_server, "funasr_active_sessions"))
        async with httpx.AsyncClient(timeout=60) as http:  # a file is never refused for the load
            answer = await http.post(
                f"{slow_server.address.http}/v1/audio/transcriptions", files={"file": ("a.wav", wav(SPEECH[0]))}
            )
    assert answer.status_code == 200
    assert answer.json()["text"]
    assert set(heard.codes) == {1000, 1013}
    assert {(error["name"], error["code"], error["retry"]) for error in heard.refused} == {("overloaded", 503, "after")}
    assert all(error["retry_after_ms"] > 0 for error in heard.refused)
    sys.stdout.write(f"{len(heard.refused)} of {SPEAKERS} refused, at most {busiest:.0f} at once\n")  # pytest -rP
    assert 3 <= busiest <= 16
    assert len(heard.refused) >= 3
    for said in heard.served:
        assert sum(message["type"] == "result" and message["is_final"] for message in said) == BURSTS
    await until_no_session(slow_server)
    refused = len(heard.refused)
    assert await figure(slow_server, "streamscribe_shed_sessions_total") == refused
    assert await figure(slow_server, "streamscribe_refused_sessions_total") == refused
    assert await figure(slow_server, "streamscribe_failed_sessions_total") == 0

    await speak(url, noise_speech(99, bursts=1), heard)  # the crowd has gone: everybody is welcome again
    assert len(heard.refused) == refused


@pytest.fixture
def hanging_server() -> Iterator[RunningServer]:
    """A step that takes 3 s counts as hanging after half a second."""
    with LocalServer(
        ["--profile", "fake", "--set", "model.fake_cost_ms=3000", "--set", "model.step_timeout_s=0.5"]
    ) as running:
        yield running


async def test_a_model_that_hangs_is_named_by_readyz_and_its_sessions_fail_with_a_code_that_says_come_back(
    hanging_server: RunningServer,
) -> None:
    url, heard = hanging_server.address.websocket, Heard()
    async with httpx.AsyncClient(base_url=hanging_server.address.http, timeout=None) as http:
        speaking = asyncio.create_task(speak(url, SPEECH[0], heard))
        while (ready := await http.get("/readyz")).status_code == 200:
            await asyncio.sleep(0.05)
        assert ready.json()["waiting_for"] == ["model recognizer"]
        async with connect(url) as socket:
            said, code, _ = await ending(socket)
        assert (said[0]["name"], code) == ("model_unavailable", 1013)
        while (await http.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
        await speaking
    assert (heard.served[0][-1]["name"], set(heard.codes)) == ("model_unavailable", {1013})
    assert await figure(hanging_server, "streamscribe_shed_sessions_total") == 1
