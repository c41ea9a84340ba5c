"""What the service tests share: speech made of noise, sessions from first packet to last message, and figures."""

import asyncio
import io
import json
import random
import re
import wave
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from streamscribe.client.local_server import RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.core.options import Mode
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage, ServerWire

RATE = 16_000
SAMPLE_BYTES = 2
END = '{"type":"end"}'


def noise_speech(seed: int, *, bursts: int = 3, burst_s: float = 1.2, pause_s: float = 1.0) -> bytes:
    """PCM s16le 16 kHz that the fake models hear as `bursts` segments; another text for each seed."""
    generator = np.random.default_rng(seed)
    pause = np.zeros(int(pause_s * RATE))
    loud = [generator.uniform(-0.5, 0.5, int(burst_s * RATE)) for _ in range(bursts)]
    joined = np.concatenate([piece for burst in loud for piece in (pause, burst)])
    return (joined * 32767).astype("<i2").tobytes()


def wav(pcm: bytes, rate: int = RATE) -> bytes:
    """The samples as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(SAMPLE_BYTES)
        writer.setframerate(rate)
        writer.writeframes(pcm)
    return file.getvalue()


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Packets of `size` bytes, the last one shorter."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


def cut_at_random(data: bytes, seed: int, *, max_bytes: int = 20_000) -> Iterator[bytes]:
    """Packets of random sizes, odd ones too."""
    sizes = random.Random(seed)
    at = 0
    while at < len(data):
        size = sizes.randint(1, max_bytes)
        yield data[at : at + size]
        at += size


@dataclass(frozen=True)
class Final:
    """What a final says."""

    segment_id: int
    pass_: int
    text: str
    start_ms: int
    end_ms: int


def finals_of(messages: Iterable[ServerWire]) -> list[Final]:
    """The finals among the messages, in order: of each segment that of its last pass."""
    finals = {m.segment_id: m for m in messages if isinstance(m, ResultMessage) and m.is_final}
    return [Final(m.segment_id, m.pass_, m.text, m.start_ms, m.end_ms) for m in finals.values()]


async def session(
    url: str,
    packets: Iterable[bytes],
    *,
    mode: Mode = Mode.TWO_PASS,
    key: str | None = None,
    pauses: random.Random | None = None,
) -> list[ServerWire]:
    """All that a client of its own hears, which reads while it speaks; `pauses` are up to 20 ms between packets."""
    async with NativeClient(url, key=key, start=StartMessage(mode=mode)) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for packet in packets:
                await client.send(packet)
                if pauses is not None:
                    await asyncio.sleep(pauses.uniform(0, 0.02))
            await client.end()

        tasks.create_task(speak())
        return [message async for message in client]


async def figure(server: RunningServer, name: str, *, key: str | None = None) -> float:
    """The sum of a metric's samples, whatever their labels; 0 where there are none."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=None) as http:
        text = (await http.get(f"{server.address.http}/metrics")).text
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))


async def until_no_session(server: RunningServer) -> None:
    """Returns when the server has forgotten every session."""
    while await figure(server, "funasr_active_sessions") or await figure(server, "funasr_active_streams"):
        await asyncio.sleep(0.05)


async def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of this type; others before it are passed over."""
    while True:
        message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] == kind:
            return message


async def ending(socket: ClientConnection) -> tuple[list[dict[str, Any]], int, str]:
    """All that is still said, and the code and reason of the close; 1006 is a connection that broke without one."""
    said: list[dict[str, Any]] = []
    with suppress(ConnectionClosed):
        while True:
            said.append(json.loads(await socket.recv()))
    assert socket.close_code is not None
    return said, socket.close_code, socket.close_reason or ""


def spoken(text: str) -> list[str]:
    """The words of a text, without what is not spoken: case and punctuation."""
    return re.findall(r"\w+", text.lower())


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs, or could run."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
