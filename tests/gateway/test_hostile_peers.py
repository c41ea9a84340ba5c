"""Peers that stall, flood, inflate, dribble or do not read: each gets its end, and the neighbours notice nothing."""

import asyncio
import json
import socket as sockets
import zlib
from contextlib import suppress

import pytest

from streamscribe.gateway.protocols import MAX_FRAGMENTS, MAX_HEAD_BYTES
from streamscribe.settings import GatewaySettings, LimitSettings
from tests.gateway.raw import BINARY, CONTINUATION, TEXT, UPGRADE, frame, hang_up, raw_socket
from tests.gateway.rig import Gateway, running, told

CHUNK = bytes([7]) + bytes(319)
QUICK = GatewaySettings(handshake_timeout_s=1.0)


async def neighbour_is_well(gateway: Gateway) -> None:
    async with gateway.connect() as socket:
        await socket.send(CHUNK)
        assert (await told(socket, "result"))["text"] == "7"


async def test_500_stalled_handshakes_are_closed_in_time_and_disturb_nobody() -> None:
    async with running(gateway=QUICK) as gateway:
        stalled = []
        for number in range(500):
            stalled.append(await asyncio.open_connection("127.0.0.1", gateway.port))
            if number % 2:
                stalled[-1][1].write(b"GET /ws/asr HTTP/1.1\r\nHost: x\r\n")
        await neighbour_is_well(gateway)
        for reader, writer in stalled:
            assert (await reader.read()).startswith(b"HTTP/1.1 408")
            await hang_up(writer)
        await neighbour_is_well(gateway)


async def test_a_handshake_that_dribbles_is_closed_as_one_that_is_silent() -> None:
    async with running(gateway=QUICK) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = UPGRADE.format(path="/ws/asr", key="x" * 24, more="").encode()
        dribbled = 0
        with suppress(ConnectionError):  # what was dribbled after the close resets the connection
            for byte in head:
                writer.write(bytes([byte]))
                await writer.drain()
                if reader.at_eof():
                    break
                dribbled += 1
                await asyncio.sleep(0.02)
            assert (await reader.read()).startswith(b"HTTP/1.1 408")
        assert dribbled < len(head)
        await hang_up(writer)


async def test_a_kept_connection_whose_next_request_stalls_is_closed_too() -> None:
    async with running(gateway=QUICK) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len('{"status":"alive"}'))
        writer.write(b"\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 408")  # the end of the keep-alive time says nothing
        await hang_up(writer)


@pytest.mark.parametrize("line", [b"x: " + b"y" * (MAX_HEAD_BYTES + 1), b"x: y\r\n" * (MAX_HEAD_BYTES // 4)])
async def test_a_request_head_over_its_bound_is_refused(line: bytes) -> None:
    async with running() as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + line)
        async with asyncio.timeout(30):
            with suppress(ConnectionError):  # what the server had not read when it closed resets the connection
                assert (await reader.read()).split(b" ")[1:2] in ([b"431"], [b"400"], [])
        await hang_up(writer)


@pytest.mark.parametrize("size", [9000, MAX_HEAD_BYTES - 1000])
async def test_a_handshake_with_a_large_head_ends_with_an_answer(size: int) -> None:
    async with running() as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(UPGRADE.format(path="/ws/asr", key="x" * 22 + "==", more=f"X-Pad: {'y' * size}\r\n").encode())
        async with asyncio.timeout(30):
            assert (await reader.readuntil(b"\r\n")).split(b" ")[1] in (b"400", b"431")
        await hang_up(writer)


async def test_a_message_over_the_limit_gets_1009_whole_or_in_fragments() -> None:
    async with running(limits=LimitSettings(max_message_bytes=2**16)) as gateway:
        async with raw_socket(gateway.port) as socket:
            await socket.send(frame(BINARY, bytes(2**16)))
            await socket.send(frame(BINARY, bytes(2**16 + 1)))
            assert await socket.close_code() == 1009
        async with raw_socket(gateway.port) as socket:
            await socket.send(frame(BINARY, bytes(2**15), fin=False))
            await socket.send(frame(CONTINUATION, bytes(2**15 + 1)))
            assert await socket.close_code() == 1009
        await neighbour_is_well(gateway)


@pytest.mark.parametrize("data", [b"", b"ab"])
async def test_endless_fragments_are_bounded(data: bytes) -> None:
    async with running() as gateway, raw_socket(gateway.port) as socket:
        await socket.send(frame(BINARY, data, fin=False))
        await socket.send(frame(CONTINUATION, data, fin=False) * (MAX_FRAGMENTS + 1))
        assert await socket.close_code() == 1009
        await neighbour_is_well(gateway)


async def test_compression_is_not_negotiated_and_a_compressed_frame_is_refused() -> None:
    offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
    async with running() as gateway, raw_socket(gateway.port, more=offer) as socket:
        assert b"extensions" not in socket.head.lower()
        await socket.send(frame(BINARY, zlib.compress(bytes(2**16)), rsv1=True))
        assert await socket.close_code() == 1002


@pytest.mark.parametrize("garbage", [b"{", b"\xff\xfe", b"[]", b'{"type":"start","audio":{"channels":99}}', b"{}" * 9])
async def test_garbage_text_ends_at_most_its_own_session(garbage: bytes) -> None:
    async with running() as gateway, raw_socket(gateway.port) as socket:
        await socket.send(frame(TEXT, garbage))
        opcode, data = await socket.receive()
        assert opcode == TEXT
        assert json.loads(data)["type"] == "connected"
        await socket.receive()  # an error, in band or as a close
        await neighbour_is_well(gateway)


def small_buffer_socket(port: int) -> sockets.socket:
    """A client whose kernel takes next to nothing for it."""
    client = sockets.socket()
    client.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.connect(("127.0.0.1", port))
    return client


@pytest.mark.parametrize(
    "limits",
    [
        LimitSettings(slow_reader_timeout_s=0.3, max_unread_bytes=2**24),
        LimitSettings(slow_reader_timeout_s=600, max_unread_bytes=2**14),
    ],
    ids=["time", "bytes"],
)
async def test_a_client_that_never_reads_is_closed_4408_and_little_is_held_for_it(limits: LimitSettings) -> None:
    async with running(limits=limits) as gateway:
        client = small_buffer_socket(gateway.port)
        reader, writer = await asyncio.open_connection(sock=client, limit=2**20)
        writer.write(UPGRADE.format(path="/ws/asr", key="A" * 22 + "==", more="").encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        while len(gateway.hub) == 0:
            await asyncio.sleep(0.001)
        while len(gateway.hub):
            writer.write(frame(BINARY, CHUNK) * 50)
            await writer.drain()
            await asyncio.sleep(0.001)
        writer.transport.resume_reading()
        await reader.readuntil((4408).to_bytes(2) + b"results were not read in time")
        await hang_up(writer)
