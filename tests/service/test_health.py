"""Health under load: what watches a server gets its answers while the server is busy."""

import asyncio
import random
import sys
from collections.abc import Iterator
from time import monotonic

import httpx
import pytest

from streamscribe.client.local_server import LocalServer, RunningServer
from tests.service.conftest import EVERYBODY
from tests.service.kit import cut_at_random, finals_of, noise_speech, session

pytestmark = pytest.mark.timeout(120)

SESSIONS = 50


@pytest.fixture
def busy_server() -> Iterator[RunningServer]:
    with LocalServer(["--profile", "fake", "--set", "model.fake_cost_ms=20", *EVERYBODY]) as running:
        yield running


async def test_health_and_metrics_answer_beside_fifty_sessions(busy_server: RunningServer) -> None:
    url = busy_server.address.websocket
    load = [
        asyncio.create_task(
            session(url, cut_at_random(noise_speech(number), number, max_bytes=9600), pauses=random.Random(number))
        )
        for number in range(5000, 5000 + SESSIONS)
    ]
    waits_s: dict[str, list[float]] = {"/healthz": [], "/readyz": [], "/metrics": []}
    async with httpx.AsyncClient(base_url=busy_server.address.http, timeout=10) as http:
        while not all(task.done() for task in load):
            for path, waits in waits_s.items():
                began = monotonic()
                assert (await http.get(path)).status_code == 200
                waits.append(monotonic() - began)
            await asyncio.sleep(0.02)
    for task in load:
        assert len(finals_of(await task)) == 3
    for path, waits in waits_s.items():
        assert len(waits) >= 10
        median, worst = (1000 * sorted(waits)[at] for at in (len(waits) // 2, -1))
        sys.stdout.write(f"{path}: median {median:.1f} ms, worst {worst:.1f} ms of {len(waits)}\n")  # pytest -rP
