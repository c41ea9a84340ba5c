"""A hostile network between clients and a server: a TCP proxy that harms each connection, by a seed.

What it corrupts is framing and text, never the audio inside a frame: that nobody could notice but TLS.
"""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import Self

SLICE_BYTES = 7
DELAY_S = (0.1, 0.3)
HARMED_AFTER_UP_BYTES = (60_000, 160_000)
"""Two to five seconds of audio: enough to get further each time."""
HARMED_AFTER_DOWN_BYTES = (1500, 6000)
READ_BYTES = 65_536
_RESET = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    """What becomes of each connection. `latency`: 100 to 300 ms, both ways. `slices`: seven bytes at a time. `reset`
    and `closed`: it breaks within a message, with a reset or without. `half_open`: nothing comes through any more, and
    nobody says so. `corrupt_up`: a frame's header, or a text, to the server is spoilt. `corrupt_down`: any byte to the
    client is."""

    LATENCY = "latency"
    SLICES = "slices"
    RESET = "reset"
    CLOSED = "closed"
    HALF_OPEN = "half_open"
    CORRUPT_UP = "corrupt_up"
    CORRUPT_DOWN = "corrupt_down"


class _Broken(Exception):
    """The connection's time has come."""


class ChaosProxy:
    """Forwards connections of a free loopback port, `port`, to one of this machine; `harmed` counts those it spoilt.

    The same seed does the same to the same connections, by their order and their bytes.
    """

    def __init__(self, target: int, fault: Fault, seed: int) -> None:
        self.harmed = 0
        self._target = target
        self._fault = fault
        self._seed = seed
        self._connections = 0
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._connections += 1
        chance = Random(f"{self._seed}:{self._connections}")
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer, chance))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter, chance: Random) -> None:
        writers = [writer]
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(far_writer)
            up_breaks = chance.random() < 0.5
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(self._up(reader, chance, up_breaks), far_writer))
                both.create_task(_carry(self._down(far_reader, chance, not up_breaks), writer))
        except* _Broken:
            self.harmed += 1
            await self._break(writers)
        except* (OSError, EOFError):  # either side is gone, or nobody listens
            pass
        finally:
            for one in writers:
                one.transport.abort()

    async def _break(self, writers: list[StreamWriter]) -> None:
        if self._fault is Fault.HALF_OPEN:
            await asyncio.Event().wait()  # until the proxy is closed
        if self._fault is Fault.RESET:
            for one in writers:
                one.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _up(self, reader: StreamReader, chance: Random, breaks: bool) -> AsyncIterator[bytes]:
        after_bytes = chance.randint(*HARMED_AFTER_UP_BYTES)
        if self._fault is Fault.CORRUPT_UP:
            return self._spoilt_frames(reader, chance, chance.choice((0, after_bytes)))
        return self._pieces(reader, chance, after_bytes if breaks else None)

    def _down(self, reader: StreamReader, chance: Random, breaks: bool) -> AsyncIterator[bytes]:
        after_bytes = chance.randint(*HARMED_AFTER_DOWN_BYTES)
        if self._fault is Fault.CORRUPT_DOWN:
            return self._spoilt_byte(reader, chance.choice((chance.randrange(200), after_bytes)))
        return self._pieces(reader, chance, after_bytes if breaks else None)

    async def _pieces(self, reader: StreamReader, chance: Random, after_bytes: int | None) -> AsyncIterator[bytes]:
        breaks = self._fault in (Fault.RESET, Fault.CLOSED, Fault.HALF_OPEN)
        left = after_bytes if breaks and after_bytes is not None else None
        while data := await reader.read(READ_BYTES):
            if self._fault is Fault.LATENCY:
                await asyncio.sleep(chance.uniform(*DELAY_S))
            if left is not None and len(data) >= left:
                yield data[:left]
                raise _Broken
            left = None if left is None else left - len(data)
            if self._fault is Fault.SLICES:
                for at in range(0, len(data), SLICE_BYTES):
                    yield data[at : at + SLICE_BYTES]
                    await asyncio.sleep(0)
            else:
                yield data

    async def _spoilt_byte(self, reader: StreamReader, at: int) -> AsyncIterator[bytes]:
        """One byte becomes one that is neither text nor the header of a frame."""
        while data := await reader.read(READ_BYTES):
            if 0 <= at < len(data):
                self.harmed += 1
                data = data[:at] + b"\xff" + data[at + 1 :]
            at -= len(data)
            yield data

    async def _spoilt_frames(self, reader: StreamReader, chance: Random, after_bytes: int) -> AsyncIterator[bytes]:
        """A frame's header becomes what no frame has, or a text what is none; of the first frame behind so much."""
        yield (head := await reader.readuntil(b"\r\n\r\n"))
        left = after_bytes - len(head)
        while start := await reader.read(2):
            header, size = await _rest_of_header(reader, start)
            frame = bytearray(header + await reader.readexactly(size))
            left -= len(frame)
            if left <= 0:
                self.harmed += 1
                left = 2**62
                if frame[0] == 0x81 and size:
                    frame[len(header) + chance.randrange(size)] ^= 0x80
                else:
                    frame[chance.randrange(2)] = 0xFF
            yield bytes(frame)


async def _rest_of_header(reader: StreamReader, start: bytes) -> tuple[bytes, int]:
    """The whole header of a client's frame that begins with `start`, and the size of what follows."""
    if len(start) < 2:
        start += await reader.readexactly(1)
    size = start[1] & 0x7F
    if size < 126:
        return start + await reader.readexactly(4), size
    extended = await reader.readexactly(2 if size == 126 else 8)
    return start + extended + await reader.readexactly(4), int.from_bytes(extended, "big")


async def _carry(pieces: AsyncIterator[bytes], writer: StreamWriter) -> None:
    async for piece in pieces:
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
