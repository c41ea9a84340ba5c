"""What the gateway adds: many live sessions on the fake model, one server process, the load made in this one.

Latency is from the moment a chunk is handed to the socket to the moment its ack arrives: the path through dialect,
session, bus and back. Memory is the growth of the server's resident set from idle to all sessions streaming.
"""

import asyncio
import json
import struct
from array import array
from collections.abc import Callable
from math import sin
from time import monotonic

from websockets.asyncio.client import ClientConnection, connect

from streamscribe.bench.report import Report, report
from streamscribe.client.local_server import LocalServer, RunningServer

CHUNK_S = 0.1
CHUNK_SAMPLES = 1600
START = json.dumps({"type": "start", "framing": "sequenced", "mode": "online"})


def _chunk(session: int) -> bytes:
    """100 ms of a tone of this session's own."""
    tone = array("h", (int(8000 * sin(0.02 * (session % 50 + 3) * i)) for i in range(CHUNK_SAMPLES)))
    return tone.tobytes()


async def _read(socket: ClientConnection, sent_at: dict[int, float], latencies_s: list[float]) -> None:
    async for text in socket:
        message = json.loads(text)
        if message["type"] == "ack":
            now = monotonic()
            # Acks are cumulative, and the dict keeps the order of sending.
            acked = [sequence for sequence in sent_at if sequence <= message["sequence"]]
            latencies_s.extend(now - sent_at.pop(sequence) for sequence in acked)


async def _session(url: str, number: int, sessions: int, until: Callable[[], bool], latencies_s: list[float]) -> None:
    sent_at: dict[int, float] = {}
    async with connect(url, compression=None, max_queue=64, ping_interval=None) as socket:
        await socket.recv()
        await socket.send(START)
        audio = _chunk(number)
        reader = asyncio.ensure_future(_read(socket, sent_at, latencies_s))
        due = monotonic() + CHUNK_S * number / sessions
        sequence = 0
        while not until():
            await asyncio.sleep(max(0.0, due - monotonic()))
            sent_at[sequence] = monotonic()
            await socket.send(struct.pack(">II", sequence, 0) + audio)
            sequence += 1
            due += CHUNK_S
        await socket.send('{"type":"end"}')
        await reader


async def _load(server: RunningServer, sessions: int, seconds: float) -> dict[str, float]:
    idle_bytes = server.memory_bytes()
    latencies_s: list[float] = []
    stop_at = monotonic() + 1e9
    cpu_s = peak_bytes = 0.0
    async with asyncio.TaskGroup() as tasks:
        for number in range(sessions):
            tasks.create_task(
                _session(server.address.websocket, number, sessions, lambda: monotonic() >= stop_at, latencies_s)
            )
            await asyncio.sleep(0.005)
        await asyncio.sleep(2.0)
        latencies_s.clear()
        cpu_before_s, began = server.cpu_s, monotonic()
        await asyncio.sleep(seconds)
        cpu_s = (server.cpu_s - cpu_before_s) / (monotonic() - began)
        peak_bytes = server.memory_bytes()
        measured = sorted(latencies_s)
        stop_at = 0.0
    return {
        "sessions": sessions,
        "chunks": len(measured),
        "added_latency_p50_ms": 1000 * measured[len(measured) // 2],
        "added_latency_p99_ms": 1000 * measured[int(len(measured) * 0.99)],
        "server_cores": cpu_s,
        "memory_per_connection_kib": (peak_bytes - idle_bytes) / sessions / 1024,
    }


def run(*, sessions: int, seconds: float) -> Report:
    """Starts a server on the fake model, loads it for `seconds`, and reports."""
    with LocalServer(["--profile", "fake"]) as server:
        figures = asyncio.run(_load(server, sessions, seconds))
    return report("gateway", {"sessions": sessions, "seconds": seconds, "chunk_ms": 1000 * CHUNK_S}, figures)
