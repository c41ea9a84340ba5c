"""Worker processes that are ended from outside, whatever they were at: no session pays for it."""

import os
import re
import resource
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from streamscribe.bench.worker_fleet import replace, until_ready, worker_pids
from streamscribe.client.local_server import RunningServer
from tests.service.fleet_kit import SPEECH, WORKERS, fleet, scrape, speaking, undisturbed
from tests.service.kit import figure, noise_speech, until_no_session

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def pair() -> Iterator[RunningServer]:
    """Two workers on the fake models, whose steps take 20 ms."""
    with fleet("model.fake_cost_ms=20") as running:
        yield running


async def ends(server: RunningServer, cause: str) -> float:
    return (await scrape(server)).get(f'streamscribe_worker_ends_total{{"cause": "{cause}"}}', 0)


async def test_law_3_a_long_sentence_whose_workers_are_all_killed_again_and_again_loses_nothing(
    pair: RunningServer,
) -> None:
    """No checkpoint comes within a sentence, so all its ends count together."""
    sentence = [noise_speech(5200, bursts=1, burst_s=24)]
    expected = await undisturbed(pair, sentence, least=1)
    await until_ready(pair, WORKERS)
    kills = 0

    async def kill(number: int) -> None:
        nonlocal kills
        if number % 5 == 4 and number < 24:
            kills += 1
            for worker in worker_pids(pair):
                os.kill(worker, signal.SIGKILL)

    assert await speaking(pair, kill, sentence) == expected
    assert kills >= 3
    assert await figure(pair, "streamscribe_quarantined_sessions_total") == 0
    await until_no_session(pair)


async def test_workers_that_are_told_to_leave_one_after_the_other_give_their_sessions_away_first(
    pair: RunningServer,
) -> None:
    expected = await undisturbed(pair)
    await until_ready(pair, WORKERS)
    left, exited = await ends(pair, "left"), await ends(pair, "exit")

    async def roll(number: int) -> None:
        if number == 0:
            for worker in worker_pids(pair):
                await replace(pair, worker, WORKERS)

    assert await speaking(pair, roll) == expected
    assert (await ends(pair, "left"), await ends(pair, "exit")) == (left + WORKERS, exited)


async def test_while_no_process_can_be_started_the_server_goes_on_and_starts_one_later(pair: RunningServer) -> None:
    await until_ready(pair, WORKERS)
    pid = pair.process.pid
    _, hard = limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    async with httpx.AsyncClient(base_url=pair.address.http, timeout=None) as http:
        told = (await http.get("/metrics")).text  # over a connection that stays
        try:
            used = {int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir()}
            free = next(number for number in count() if number not in used)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, hard))  # a worker that ended leaves room for one
            os.kill(worker_pids(pair)[0], signal.SIGKILL)
            while not re.search(r'streamscribe_worker_ends_total\{cause="start"\} [1-9]', told):
                told = (await http.get("/metrics")).text
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    await until_ready(pair, WORKERS)
    expected = await undisturbed(pair, SPEECH[:1])
    assert await undisturbed(pair, SPEECH[:1]) == expected
