"""A link: frames of a few kinds, both ways, over one connected Unix socket.

A frame is the length of its payload (4 bytes, big-endian), its kind (1 byte) and the payload. What a peer sends can end
its link, with a typed error, and nothing else.
"""

import asyncio
import struct
from collections.abc import Callable
from enum import IntEnum
from socket import socket
from typing import cast

from streamscribe.core.errors import BadRequest, InternalError, SlowReader, StreamScribeError, TooLarge

MAX_PAYLOAD_BYTES = 2**26 + 2**16
"""The largest client message (`limits.max_message_bytes` is at most 64 MiB) and what is put around it."""

HIGH_WATER_BYTES, LOW_WATER_BYTES = 2**18, 2**16
"""Unsent bytes beyond which a link is not `writable`, and from which it is again."""

MAX_UNSENT_BYTES = 2**26 + 2**24
"""Beyond it a peer that does not read is given up."""

_HEADER = struct.Struct(">IB")
_READ_BYTES = 2**18


class Kind(IntEnum):
    """What a frame holds: four kinds are the bus' own, `CONTROL` is for who starts the processes."""

    RECORD = 1
    EVENT = 2
    SETTLE = 3
    CONTROL = 4
    WORK = 5


_KINDS = frozenset(Kind)

FrameHandler = Callable[[memoryview], None]
"""Takes a payload, which is valid during the call only. Raising a StreamScribeError closes the link with it."""


class Link(asyncio.BufferedProtocol):
    """One end of the socket; make it with `open`. For one event loop, not thread-safe.

    Frames arrive in the order they were sent. The reading waits at a frame of a kind that nobody takes yet (`on`), so
    nothing is lost before both ends are ready. Payloads are read in place: no copy but the socket's own.
    """

    def __init__(self) -> None:
        self.closed: asyncio.Future[StreamScribeError | None] = asyncio.get_running_loop().create_future()
        """Done when the link is down: with the error that ended it, or None when either end closed or died."""
        self.on_writable: Callable[[], None] = lambda: None
        """Called when the link becomes `writable` again."""
        self._writable = True
        self._handlers: dict[int, FrameHandler] = {}
        self._transport: asyncio.Transport
        self._error: StreamScribeError | None = None
        self._closing = False
        self._buffer = bytearray(_READ_BYTES)
        self._start = self._end = 0  # what was read and not yet taken
        self._held = False  # the reading waits for a handler

    @classmethod
    async def open(cls, sock: socket) -> "Link":
        """A link over a connected stream socket, which it owns from now on."""
        _, link = await asyncio.get_running_loop().create_unix_connection(cls, sock=sock)
        return link

    @property
    def writable(self) -> bool:
        """Whether more should be sent now; what is sent all the same is kept, within MAX_UNSENT_BYTES."""
        return self._writable and not self._closing

    @property
    def unsent_bytes(self) -> int:
        """What was sent here and is not yet the socket's."""
        return self._transport.get_write_buffer_size()

    def on(self, kind: Kind, handler: FrameHandler) -> None:
        """Gives the payloads of this kind to `handler` from now on, which must not block."""
        self._handlers[kind] = handler
        if self._held:
            self._held = False
            asyncio.get_running_loop().call_soon(self._go_on)

    def send(self, kind: Kind, payload: bytes) -> None:
        """Sends a frame; on a link that is closed it is dropped.

        Raises TooLarge over MAX_PAYLOAD_BYTES. A peer that leaves MAX_UNSENT_BYTES unread loses the link (SlowReader).
        """
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise TooLarge(f"a frame may have {MAX_PAYLOAD_BYTES} bytes", field="payload")
        if self._closing:
            return
        self._transport.writelines((_HEADER.pack(len(payload), kind), payload))
        if not self._writable and self.unsent_bytes > MAX_UNSENT_BYTES:
            self.close(SlowReader())

    def close(self, error: StreamScribeError | None = None) -> None:
        """Closes after what was sent; with an `error` at once."""
        if error is not None:
            self._error = self._error or error
            self._transport.abort()
        elif not self._closing:
            self._transport.close()
        self._closing = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop's: the socket is ready."""
        self._transport = cast(asyncio.Transport, transport)  # of a stream socket
        self._transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """The loop's: the socket is closed; a peer that was killed looks like one that closed."""
        self._closing = True
        self._handlers.clear()
        if not self.closed.done():
            self.closed.set_result(self._error)

    def pause_writing(self) -> None:
        """The loop's: the peer does not read as fast as we send."""
        self._writable = False

    def resume_writing(self) -> None:
        """The loop's: it has caught up."""
        self._writable = True
        if not self._closing:
            self.on_writable()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The loop's: where to read to."""
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """The loop's: so much was read."""
        self._end += nbytes
        self._take_frames()

    def _take_frames(self) -> None:
        view = memoryview(self._buffer)
        while not self._closing:
            needed = _HEADER.size
            if self._end - self._start >= needed:
                length, kind = _HEADER.unpack_from(view, self._start)
                if length > MAX_PAYLOAD_BYTES or kind not in _KINDS:
                    self.close(BadRequest("the peer's bytes are no frames", field="frame"))
                    return
                needed += length
                if kind not in self._handlers:
                    self._hold()
                    break
            if self._end - self._start < needed:
                break
            at, self._start = self._start + _HEADER.size, self._start + needed
            self._give(self._handlers[kind], view[at : self._start])
        self._make_room(needed)

    def _go_on(self) -> None:
        if not self._closing and not self._held:
            self._take_frames()
            if not self._closing and not self._held:
                self._transport.resume_reading()

    def _give(self, handler: FrameHandler, payload: memoryview) -> None:
        try:
            handler(payload)
        except StreamScribeError as error:
            self.close(error)
        except Exception as error:  # noqa: BLE001 - the link's edge: a defect ends this link, and is told to the loop
            told = {"message": "a frame could not be taken", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
            self.close(InternalError())

    def _hold(self) -> None:
        self._held = True
        self._transport.pause_reading()

    def _make_room(self, needed: int) -> None:
        """Moves what is left to the front of a buffer that has room for the frame it begins."""
        left = memoryview(self._buffer)[self._start : self._end]
        if len(self._buffer) != (size := max(_READ_BYTES, needed)) and len(left) <= size:
            self._buffer = bytearray(size)
        memoryview(self._buffer)[: len(left)] = left
        self._start, self._end = 0, len(left)
