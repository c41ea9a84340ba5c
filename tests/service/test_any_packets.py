"""Law 4 through a whole server: packet sizes, speed and broken connections change neither text nor times."""

import asyncio
import json
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from streamscribe.audio.decode import DecodeLimits, decode
from streamscribe.client.local_server import RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage

pytestmark = [pytest.mark.models, pytest.mark.timeout(240)]

SAMPLE_BYTES = 2


async def _pcm(file: Path) -> bytes:
    return b"".join([block async for block in decode(file, DecodeLimits(stall_s=600))])


def _what_counts(results: list[ResultMessage]) -> list[tuple[object, ...]]:
    return [
        (r.segment_id, r.pass_, r.text, r.start_ms, r.end_ms, tuple((w.text, w.start_ms, w.end_ms) for w in r.words))
        for r in results
        if r.is_final
    ]


async def _finals(
    url: str, pcm: bytes, packet_samples: int, *, break_at: int | None = None
) -> list[tuple[object, ...]]:
    step = packet_samples * SAMPLE_BYTES
    async with NativeClient(url, start=StartMessage(words=True)) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for number, at in enumerate(range(0, len(pcm), step)):
                if number == break_at:
                    client.drop_connection()
                await client.send(pcm[at : at + step])
            await client.end()

        tasks.create_task(speak())
        heard = [message async for message in client if isinstance(message, ResultMessage)]
    return _what_counts(heard)


@pytest.fixture(scope="module")
def speech(recordings: dict[str, Path]) -> bytes:
    """Three recordings with a second of silence between them: several segments."""

    async def joined() -> bytes:
        silence = bytes(2 * 16_000)
        names = ("en/counting.wav", "zh/jishu.wav", "en/quick_brown_fox.wav")
        return silence.join([await _pcm(recordings[name]) for name in names])

    return asyncio.run(joined())


@pytest.fixture(scope="module")
def expected(server: RunningServer, speech: bytes) -> list[tuple[object, ...]]:
    finals = asyncio.run(_finals(server.address.websocket, speech, 1600))
    assert len(finals) >= 3
    return finals


@pytest.mark.parametrize("packet_samples", [7, 160, 960, 9600, 100_000])
async def test_law_4_packet_sizes_change_neither_text_nor_times(
    packet_samples: int, server: RunningServer, speech: bytes, expected: list[tuple[object, ...]]
) -> None:
    assert await _finals(server.address.websocket, speech, packet_samples) == expected


async def test_law_4_a_broken_connection_in_the_middle_changes_neither_text_nor_times(
    server: RunningServer, speech: bytes, expected: list[tuple[object, ...]]
) -> None:
    assert await _finals(server.address.websocket, speech, 1600, break_at=60) == expected


async def test_law_4_neighbours_change_neither_text_nor_times(
    server: RunningServer, speech: bytes, expected: list[tuple[object, ...]]
) -> None:
    many = await asyncio.gather(*(_finals(server.address.websocket, speech, 960 + 7 * n) for n in range(5)))
    assert many == [expected] * 5


async def test_the_simplest_client_gets_partials_then_finals(
    server: RunningServer, recordings: dict[str, Path]
) -> None:
    pcm = await _pcm(recordings["en/quick_brown_fox.wav"])
    kinds: list[str] = []
    async with connect(server.address.websocket, compression=None) as socket:
        for at in range(0, len(pcm), 3200):
            await socket.send(pcm[at : at + 3200])
            await asyncio.sleep(0.05)
        await socket.send('{"type":"end"}')
        async for text in socket:
            message = json.loads(text)
            kinds.append(message.get("result_type", message["type"]))
    assert kinds[0] == "connected"
    assert kinds[-1] == "closed"
    assert "partial" in kinds
    assert kinds.index("partial") < kinds.index("final")
    assert not any(kind in ("ack", "error") for kind in kinds)
