"""Somebody who wants to be let in by a server that has no place, and how long he waits to be told so."""

import asyncio
from functools import partial
from time import perf_counter

import msgspec

from streamscribe.bench.load import OPEN_TIMEOUT_S, Latencies, LoadSession, Refused, connect

EVERY_S = 0.1


class _Refusal(msgspec.Struct):
    """What is read of an error."""

    code: int = 0
    retry_after_ms: int = 0


def waited_s(began_s: float, failed: OSError) -> float:
    """From connecting at `began_s` until the refusal that says when to come back.

    OPEN_TIMEOUT_S for who was told nothing of the kind, however it ended: else a server that answers fewer would look
    quicker.
    """
    if isinstance(failed, Refused):
        refusal = msgspec.json.decode(failed.told, type=_Refusal)
        if refusal.code == 503 and refusal.retry_after_ms > 0:
            return failed.at - began_s
    return OPEN_TIMEOUT_S


async def knock(url: str, seconds: float) -> list[float]:
    """Knocks ten times a second for so long: what each waited that was not let in (`waited_s`)."""
    waits_s: list[float] = []
    until_s = perf_counter() + seconds
    async with asyncio.TaskGroup() as tasks:
        while (left_s := until_s - perf_counter()) > 0:
            tasks.create_task(_try(url, waits_s))
            await asyncio.sleep(min(EVERY_S, left_s))
    return waits_s


async def _try(url: str, waits_s: list[float]) -> None:
    began_s = perf_counter()
    try:
        (await connect(url, partial(LoadSession, latencies=Latencies()))).end()
    except OSError as failed:
        waits_s.append(waited_s(began_s, failed))
