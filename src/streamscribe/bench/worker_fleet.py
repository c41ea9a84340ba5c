"""A server with worker processes, as a measurement has it: who they are, what they weigh, what the server counts."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from streamscribe.bench.metrics import counted
from streamscribe.client.local_server import RunningServer

MODULE = b"streamscribe.bootstrap.worker_process"
LOOK_EVERY_S = 0.1


def worker_pids(server: RunningServer) -> list[int]:
    """Its worker processes, in the order of their starts; those that are starting too."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if MODULE in words and int(fields[1]) == server.process.pid:
                found.append((int(fields[19]), int(folder.name)))
    return [pid for _, pid in sorted(found)]


async def until_ready(server: RunningServer, workers: int) -> None:
    """Returns when so many workers may be given sessions."""
    while await counted(server.address.http, "streamscribe_ready_workers") < workers:  # noqa: ASYNC110 - nobody tells it
        await asyncio.sleep(LOOK_EVERY_S)


async def replace(server: RunningServer, pid: int, workers: int) -> None:
    """Tells one worker to end; returns when another one is ready in its place."""
    before = await counted(server.address.http, "streamscribe_worker_ends_total")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    while await counted(server.address.http, "streamscribe_worker_ends_total") <= before:  # noqa: ASYNC110 - nobody tells it
        await asyncio.sleep(LOOK_EVERY_S)
    await until_ready(server, workers)


async def memory_bytes(server: RunningServer) -> float:
    """Resident memory of the server's process and of its workers."""
    return server.memory_bytes() + await counted(server.address.http, "streamscribe_worker_memory_bytes")
