"""Who is gone and who is only slow: pings that are not answered."""

import asyncio
import json
from collections.abc import Callable

import pytest

from streamscribe.settings import LimitSettings
from tests.gateway.raw import BINARY, PING, TEXT, RawSocket, frame, raw_socket
from tests.gateway.rig import Gateway, running

CHUNK = bytes([7]) + bytes(3199)
PING_S = 0.3


async def connections(gateway: Gateway, count: int) -> None:
    while gateway.connected() != count:
        await asyncio.sleep(0.005)


async def test_a_peer_that_answers_no_ping_and_says_nothing_is_lost_and_its_session_waits_for_a_resume() -> None:
    async with running(ping_s=PING_S) as gateway, raw_socket(gateway.port) as socket:
        await socket.send(frame(BINARY, CHUNK))
        await connections(gateway, 1)
        await connections(gateway, 0)
        assert len(gateway.hub) == 1


async def test_a_peer_that_sends_audio_is_alive_without_a_pong() -> None:
    async with running(ping_s=1.0) as gateway, raw_socket(gateway.port) as socket:
        await socket.send(frame(BINARY, CHUNK))
        pings = 0
        while pings < 3:  # the connection that gets another has outlived those before it
            opcode, _ = await socket.receive()
            if opcode == PING:
                pings += 1
                await socket.send(frame(BINARY, CHUNK))
        assert gateway.connected() == 1


async def test_a_peer_that_is_not_read_is_not_dead_though_its_pongs_are_not_seen() -> None:
    limits = LimitSettings(max_backlog_s=0.5)
    async with running(limits=limits, ping_s=PING_S) as gateway, raw_socket(gateway.port) as socket:
        gateway.worker.hold = True
        await socket.send(frame(BINARY, CHUNK) * 50)
        await asyncio.sleep(4 * PING_S)
        assert gateway.connected() == 1
        gateway.worker.settle_all()
        while gateway.worker.chunks() < 50:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("path", ["/ws/asr", "/"])
@pytest.mark.parametrize(
    "leave",
    [
        lambda peer: peer.writer.close(),
        lambda peer: peer.writer.transport.abort(),
        lambda peer: peer.writer.write_eof(),
    ],
    ids=["closes", "resets", "closes its side"],
)
async def test_a_peer_that_leaves_while_it_is_not_read_is_seen_to_leave(
    path: str, leave: Callable[[RawSocket], None]
) -> None:
    limits = LimitSettings(max_backlog_s=0.5, resume_window_s=600, finalize_timeout_s=3600)
    async with running(limits=limits, ping_s=PING_S) as gateway, raw_socket(gateway.port, path) as socket:
        gateway.worker.hold = True
        if path == "/":
            await socket.send(frame(TEXT, json.dumps({"mode": "2pass", "is_speaking": True}).encode()))
        await socket.send(frame(BINARY, CHUNK) * 50)
        while gateway.worker.chunks() < 5:
            await asyncio.sleep(0.005)
        leave(socket)
        async with asyncio.timeout(30):
            await connections(gateway, 0)
