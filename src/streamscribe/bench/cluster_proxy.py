"""A hostile network between real clients and a server with worker processes: who comes to his end, and hears what."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from streamscribe.bench.chaos_client import Resumer
from streamscribe.bench.chaos_proxy import ChaosProxy, Fault
from streamscribe.bench.chaos_voice import Script, all_say, held_against
from streamscribe.bench.load import OPEN_DOOR, allow_files, quantile_ms
from streamscribe.client.address import websocket_url
from streamscribe.client.local_server import LocalServer

SEED = 5
SPARE_FILES = 500
SILENCE_TIMEOUT_S = 3.0
"""Whoever speaks is acknowledged all the time, so that who hears nothing for so long may try another connection."""
MAY_BE_REFUSED = (Fault.CORRUPT_UP, Fault.CORRUPT_DOWN)
"""Whose connection says what is not of the protocol may be told so, with a code that is documented."""


async def besieged(sessions: int, seconds: float, *more: str, seed: int = SEED) -> dict[str, float]:
    """Sessions of `seconds`, as many for each fault, all at once."""
    allow_files(4 * sessions + SPARE_FILES)
    each = max(1, sessions // len(Fault))
    scripts = [Script.of(number, seconds) for number in range(each)]
    arguments = ["--profile=fake", "--set=limits.max_sessions=5000", "--set=limits.max_tenant_sessions=5000"]
    with LocalServer([*arguments, *OPEN_DOOR, *more]) as server:
        expected = await all_say(server.address.websocket, scripts, each)
        port = urlsplit(server.address.http).port or 0
        heard = await asyncio.gather(*(_through(fault, port, scripts, seed) for fault in Fault))
    by_fault = dict(zip(Fault, heard, strict=True))
    voices = [voice for _, crowd in heard for voice in crowd]
    whole = [voice for voice in voices if voice.whole]
    refused = {fault: sum(not voice.whole for voice in crowd) for fault, (_, crowd) in by_fault.items()}
    silences_s = sorted(silence_s for voice in voices for silence_s in voice.silences_s)
    figures = {f"{fault}_{name}": value for fault, one in by_fault.items() for name, value in _figures(*one).items()}
    return {
        **held_against(expected, whole),
        "sessions": float(len(voices)),
        "resumes": float(len(silences_s)),
        "silence_before_resume_p95_ms": quantile_ms(silences_s, 0.95),
        "broken_sessions": float(sum(count for fault, count in refused.items() if fault not in MAY_BE_REFUSED)),
        "unexplained_ends": float(sum(not (voice.whole or voice.was_told_why) for voice in voices)),
        **figures,
    }


async def _through(fault: Fault, port: int, scripts: Sequence[Script], seed: int) -> tuple[int, list[Resumer]]:
    """How many connections were harmed, and what became of the sessions."""
    voices = [Resumer(script) for script in scripts]
    async with ChaosProxy(port, fault, seed) as proxy, asyncio.TaskGroup() as tasks:
        url = websocket_url(f"http://127.0.0.1:{proxy.port}")
        for voice in voices:
            tasks.create_task(voice.say([url], silence_timeout_s=SILENCE_TIMEOUT_S))
    return proxy.harmed, voices


def _figures(harmed: int, voices: Sequence[Resumer]) -> dict[str, float]:
    resumes = sum(len(voice.silences_s) for voice in voices)
    return {"harmed": float(harmed), "resumes": float(resumes), "whole": float(sum(voice.whole for voice in voices))}
