"""Who is gone and who is only slow: pings that are not answered."""

import asyncio

from streamscribe.settings import LimitSettings
from tests.gateway.raw import BINARY, PING, frame, raw_socket
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
