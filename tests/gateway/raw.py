"""Sockets that speak just enough to misbehave."""

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n"
)

TEXT, BINARY, CONTINUATION, CLOSE, PING = 1, 2, 0, 8, 9


def frame(opcode: int, data: bytes, *, fin: bool = True, rsv1: bool = False) -> bytes:
    """A client's frame, masked with zeros."""
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    if len(data) < 126:
        head = struct.pack("!BB", first, 0x80 | len(data))
    elif len(data) < 65536:
        head = struct.pack("!BBH", first, 0x80 | 126, len(data))
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, len(data))
    return head + bytes(4) + data


class RawSocket:
    """A TCP connection after a WebSocket handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.head = b""

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> tuple[int, bytes]:
        """Opcode and data of the next frame."""
        first, length = await self.reader.readexactly(2)
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return first & 15, await self.reader.readexactly(length)

    async def close_code(self) -> int:
        """The code of the close frame, whatever comes before."""
        while True:
            opcode, data = await self.receive()
            if opcode == CLOSE:
                code: int = struct.unpack("!H", data[:2])[0]
                return code


@asynccontextmanager
async def raw_socket(
    port: int, path: str = "/ws/asr", more: str = "", *, buffer_bytes: int | None = None
) -> AsyncIterator[RawSocket]:
    """`more` are further header lines; `buffer_bytes` bounds what is read ahead."""
    options = {} if buffer_bytes is None else {"limit": buffer_bytes}
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(UPGRADE.format(path=path, key=key, more=more).encode())
    socket = RawSocket(reader, writer)
    socket.head = await reader.readuntil(b"\r\n\r\n")
    try:
        yield socket
    finally:
        await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Closes for good, so that nothing is left for the garbage collector."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
