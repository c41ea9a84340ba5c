"""Clients behind a hostile network, by fixed seeds: each comes to its end by resuming, or is told why it may not."""

import asyncio
from urllib.parse import urlsplit

import pytest

from streamscribe.bench.chaos_client import Resumer
from streamscribe.bench.chaos_proxy import ChaosProxy, Fault
from streamscribe.bench.chaos_voice import Script, all_say, held_against
from streamscribe.client.address import websocket_url
from streamscribe.client.local_server import RunningServer

pytestmark = pytest.mark.timeout(120)

SCRIPTS = [Script.of(seed, 10.0, burst_s=2.0) for seed in range(3)]
SPEED = 1.8
"""Times real time; a server reads twice."""
SILENCE_TIMEOUT_S = 3.0
BREAKING = (Fault.RESET, Fault.CLOSED, Fault.HALF_OPEN)


async def through(fault: Fault, server: RunningServer, seed: int) -> tuple[int, list[Resumer]]:
    """How many connections were harmed, and what became of the sessions."""
    voices = [Resumer(script) for script in SCRIPTS]
    port = urlsplit(server.address.http).port
    assert port is not None
    async with ChaosProxy(port, fault, seed) as proxy, asyncio.TaskGroup() as tasks:
        url = websocket_url(f"http://127.0.0.1:{proxy.port}")
        for voice in voices:
            tasks.create_task(voice.say([url], silence_timeout_s=SILENCE_TIMEOUT_S, speed=SPEED))
    return proxy.harmed, voices


def wrong(figures: dict[str, float]) -> list[float]:
    names = ("lost_finals", "doubled_finals", "changed_finals", "lost_acked_audio_s", "session_errors")
    return [figures[name] for name in names]


async def test_whatever_a_network_does_sessions_end_by_resume_with_equal_texts_or_with_a_documented_code(
    fake_server: RunningServer,
) -> None:
    expected = await all_say(fake_server.address.websocket, SCRIPTS, len(SCRIPTS))
    heard = dict(zip(Fault, await asyncio.gather(*(through(fault, fake_server, 1) for fault in Fault)), strict=True))
    for fault, (harmed, voices) in heard.items():
        whole = [voice for voice in voices if voice.whole]
        assert wrong(held_against(expected, whole)) == [0] * 5, fault
        assert all(voice.whole or voice.was_told_why for voice in voices), fault
        if fault in BREAKING:
            assert harmed >= len(voices) / 2, fault
            assert sum(len(voice.silences_s) for voice in voices) >= 1, fault
        if fault not in (Fault.CORRUPT_UP, Fault.CORRUPT_DOWN):
            assert len(whole) == len(voices), fault
    assert all(heard[fault][0] for fault in (Fault.CORRUPT_UP, Fault.CORRUPT_DOWN))
