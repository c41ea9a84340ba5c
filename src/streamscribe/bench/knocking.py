"""Somebody who wants to be let in by a server that has no place, and how long he waits to be told so."""

import asyncio
from contextlib import suppress
from functools import partial
from time import perf_counter

import msgspec

from streamscribe.bench.load import Latencies, LoadSession, connect

EVERY_S = 0.1


class _Refusal(msgspec.Struct):
    """What is read of an error."""

    type: str
    code: int = 0
    retry_after_ms: int = 0


class _Knocker(LoadSession):
    """Notes how long it waited when it is told to come back later; goes as soon as it is told anything."""

    def __init__(self, host: str, path: str, began_s: float, waits_s: list[float]) -> None:
        super().__init__(host, path, Latencies())
        self._began_s = began_s
        self._waits_s = waits_s

    def told(self, payload: bytes, now: float) -> None:
        """Reads a refusal."""
        refusal = msgspec.json.decode(payload, type=_Refusal)
        if refusal.type == "error" and refusal.code == 503 and refusal.retry_after_ms > 0:
            self._waits_s.append(now - self._began_s)
        self.end()


async def knock(url: str, seconds: float) -> list[float]:
    """Knocks ten times a second for so long: seconds from each connecting to its refusal that says when to come back.

    Who is let in, or turned away without a word, is not among them.
    """
    waits_s: list[float] = []
    until_s = perf_counter() + seconds
    async with asyncio.TaskGroup() as tasks:
        while (left_s := until_s - perf_counter()) > 0:
            tasks.create_task(_try(url, waits_s))
            await asyncio.sleep(min(EVERY_S, left_s))
    return waits_s


async def _try(url: str, waits_s: list[float]) -> None:
    with suppress(OSError):  # turned away
        await connect(url, partial(_Knocker, began_s=perf_counter(), waits_s=waits_s))
