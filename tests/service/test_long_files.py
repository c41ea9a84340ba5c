"""Hours of audio by REST: memory does not grow with them, and silence gives no text."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

from streamscribe.client.local_server import LocalServer, RunningServer
from tests.service.kit import spoken

pytestmark = pytest.mark.timeout(240)

RATE = 4_000
HOURS = 3
EVERY_S = 10
MAX_BYTES = 600 * 2**20


@pytest.fixture
def fresh_server() -> Iterator[RunningServer]:
    """A server whose peak memory is that of this test."""
    with LocalServer(["--profile", "fake"]) as running:
        yield running


def hours_of_speech(path: Path) -> None:
    """A second of noise in each ten of silence; the lowest rate that is accepted, so that the file is small."""
    noise = np.random.default_rng(9).uniform(-0.1, 0.1, RATE)
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16", format="FLAC") as file:
        for number in range(HOURS * 3600 // EVERY_S):
            block = np.zeros(EVERY_S * RATE)
            block[RATE : 2 * RATE] = np.roll(noise, number)
            file.write(block)


def peak_bytes(pid: int) -> int:
    with suppress(OSError, StopIteration):  # it has ended
        status = Path(f"/proc/{pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return 0


def children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


async def test_three_hours_stay_under_600_mb_with_the_decoder(fresh_server: RunningServer, tmp_path: Path) -> None:
    hours_of_speech(tmp_path / "long.flac")
    pid = fresh_server.process.pid

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(base_url=fresh_server.address.http, timeout=None) as http:
            with (tmp_path / "long.flac").open("rb") as file:
                return await http.post("/v1/audio/transcriptions", files={"file": ("long.flac", file)})

    asking = asyncio.create_task(ask())
    of_children = 0
    while not asking.done():
        of_children = max(of_children, sum(map(peak_bytes, children(pid))))
        await asyncio.wait([asking], timeout=0.25)
    answer = (await asking).json()
    assert answer["usage"]["seconds"] == HOURS * 3600
    assert len(spoken(answer["text"])) >= 2 * HOURS * 3600 // EVERY_S
    assert of_children > 0
    sys.stdout.write(f"{peak_bytes(pid) / 2**20:.0f} MiB and {of_children / 2**20:.0f} MiB\n")  # pytest -rP
    assert peak_bytes(pid) + of_children < MAX_BYTES


@pytest.mark.models
async def test_ten_minutes_of_silence_give_no_text_and_the_speech_behind_them_does(
    server: RunningServer, recordings: dict[str, Path], tmp_path: Path
) -> None:
    samples, rate = soundfile.read(recordings["en/quick_brown_fox.wav"])
    soundfile.write(tmp_path / "late.flac", np.concatenate([np.zeros(600 * rate), samples]), rate)
    async with httpx.AsyncClient(base_url=server.address.http, timeout=None) as http:
        answer = await http.post(
            "/v1/audio/transcriptions",
            files={"file": ("late.flac", (tmp_path / "late.flac").read_bytes())},
            data={"response_format": "verbose_json"},
        )
    told = answer.json()
    assert spoken(told["text"]) == spoken(recordings["en/quick_brown_fox.txt"].read_text())
    assert all(segment["start"] >= 599.5 for segment in told["segments"])
