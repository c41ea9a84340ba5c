"""A disk that takes no more fails the files that come in, each with a typed error; all else goes on."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from streamscribe.client.local_server import LocalServer, RunningServer
from tests.service.conftest import EVERYBODY
from tests.service.kit import cut, ending, finals_of, noise_speech, session, wav

ROOM_BYTES = 100_000
SPEECH = noise_speech(8100, bursts=4)


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def cramped(spools: Path) -> Iterator[RunningServer]:
    """A server that cannot write more than `ROOM_BYTES` of a file."""
    with LocalServer(["--profile", "fake", *EVERYBODY]) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))
        yield server


@pytest.mark.parametrize("packet_bytes", [3001, 65_536])
async def test_files_that_find_no_room_are_told_overloaded(
    packet_bytes: int, cramped: RunningServer, spools: Path
) -> None:
    async with httpx.AsyncClient(base_url=cramped.address.http, timeout=None) as http:
        answer = await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", wav(SPEECH))})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
        assert int(answer.headers["retry-after"]) > 0

    assert cramped.address.funasr is not None
    async with connect(cramped.address.funasr, compression=None) as socket:
        await socket.send(json.dumps({"mode": "offline", "wav_name": "a", "wav_format": "mp3"}))
        for packet in cut(bytes(2 * ROOM_BYTES), packet_bytes):
            await socket.send(packet)
        said, code, _ = await ending(socket)
        assert (said[-1]["error"]["code"], code) == ("overloaded", 1013)

    assert len(finals_of(await session(cramped.address.websocket, cut(SPEECH, 32_000)))) == 4
    assert not list(spools.glob("streamscribe-*"))
