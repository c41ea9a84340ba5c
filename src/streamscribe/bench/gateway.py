"""What the gateway adds: many live sessions at one server process, the load made in this one.

Measured twice, on the gateway alone (whose worker is a stand-in that settles each chunk at once) and on the whole
server with the fake model. Latency is from the moment a chunk is handed to the socket to the moment its ack was read:
dialect, session, bus and back, both kernels' and this process' delays included. Memory is what the gateway's resident
set grows by from no session to all sessions streaming, after a first crowd has come and gone.

The time is cut into windows, and each figure is the median of theirs: a neighbour on the machine that takes a core for
a moment spoils a window, not the figure; what is slow half of the time does. `load_lag_p99_ms` says how late this
process sent its chunks: where it is near the latencies, the machine was too busy to measure them.
"""

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from math import sin
from statistics import median
from time import perf_counter

import uvloop

from streamscribe.bench.health import ask_health
from streamscribe.bench.load import (
    CHUNK_BYTES,
    CHUNK_S,
    OPEN_DOOR,
    Latencies,
    LoadSession,
    allow_files,
    open_session,
    quantile_ms,
)
from streamscribe.bench.report import Report, report
from streamscribe.client.local_server import LocalServer, RunningServer

WINDOWS = 5
SETTLE_S = 2.0
OPENED_PER_S = 200
CLOSE_TIMEOUT_S = 30.0
MIN_SLEEP_S = 0.0005
DISTINCT_VOICES = 50
OTHERS = 100
"""Files, and sessions, beside those of the crowd."""
ALONE = ("streamscribe.bench.gateway_alone",)


def run(*, sessions: int, seconds: float) -> Report:
    """Loads each server for `seconds` after some time to settle, and reports."""
    allow_files(sessions + OTHERS)
    bounds = [f"--set=limits.{name}={sessions + OTHERS}" for name in ("max_sessions", "max_tenant_sessions")]
    with LocalServer(program=ALONE) as server:
        alone = uvloop.run(_measure(server, sessions, seconds))
    with LocalServer(["--profile", "fake", *bounds, *OPEN_DOOR]) as server:
        whole = uvloop.run(_measure(server, sessions, seconds))
    del whole["memory_per_connection_kib"]  # of the worker's audio, most of it
    figures = {"sessions": float(sessions), **alone, **{f"whole_server_{name}": value for name, value in whole.items()}}
    return report("gateway", {"sessions": sessions, "seconds": seconds, "chunk_ms": 1000 * CHUNK_S}, figures)


async def _measure(server: RunningServer, count: int, seconds: float) -> dict[str, float]:
    latencies = Latencies()
    async with _crowd(server, count, latencies, []):
        await asyncio.sleep(SETTLE_S)
    idle_bytes = server.memory_bytes()
    windows: list[list[float]] = []
    cores: list[float] = []
    lags_s: list[float] = []
    answers_s: list[float] = []
    async with _crowd(server, count, latencies, lags_s), asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask_health(server.address.http, answers_s))
        await asyncio.sleep(SETTLE_S)
        latencies.take()
        lags_s.clear()
        for _ in range(WINDOWS):
            cpu_before_s, began = server.cpu_s, perf_counter()
            await asyncio.sleep(seconds / WINDOWS)
            cores.append((server.cpu_s - cpu_before_s) / (perf_counter() - began))
            windows.append(latencies.take())
        streaming_bytes = server.memory_bytes()
        asking.cancel()
    return {
        "chunks": float(sum(map(len, windows))),
        "added_latency_p50_ms": median(quantile_ms(window, 0.50) for window in windows),
        "added_latency_p99_ms": median(quantile_ms(window, 0.99) for window in windows),
        "cores": median(cores),
        "memory_per_connection_kib": (streaming_bytes - idle_bytes) / count / 1024,
        "health_p99_ms": quantile_ms(sorted(answers_s), 0.99),
        "lost_sessions": float(latencies.lost),
        "load_lag_p99_ms": quantile_ms(sorted(lags_s), 0.99),
    }


@asynccontextmanager
async def _crowd(server: RunningServer, count: int, latencies: Latencies, lags_s: list[float]) -> AsyncIterator[None]:
    """So many sessions that speak while the block runs, evenly spread over the length of a chunk."""
    sessions = []
    for _ in range(count):
        sessions.append(await open_session(server.address.websocket, latencies))
        await asyncio.sleep(1 / OPENED_PER_S)
    speaking = asyncio.create_task(_speak(sessions, lags_s))
    try:
        yield
    finally:
        speaking.cancel()
        for session in sessions:
            session.end()
        await asyncio.wait({session.closed for session in sessions}, timeout=CLOSE_TIMEOUT_S)


async def _speak(sessions: Sequence[LoadSession], lags_s: list[float]) -> None:
    """Sends chunks in time until cancelled; `lags_s` gets how late each was all the same."""
    voices = [_tone(number) for number in range(min(len(sessions), DISTINCT_VOICES))]
    due = perf_counter()
    for session, voice in zip(cycle(sessions), cycle(voices), strict=False):
        due += CHUNK_S / len(sessions)
        if (wait_s := due - perf_counter()) > MIN_SLEEP_S:
            await asyncio.sleep(wait_s)
        lags_s.append(max(0.0, perf_counter() - due))
        session.send(voice)


def _tone(number: int) -> bytes:
    """100 ms of a tone."""
    return array("h", (int(8000 * sin(0.02 * (number + 3) * i)) for i in range(CHUNK_BYTES // 2))).tobytes()
