"""Live sessions in bulk, cheap enough that the load does not hide what it measures.

Speaks just enough WebSocket for our own server: unfragmented frames, masked with zeros as the standard allows, acks
read without a JSON parser. One event loop drives thousands of sessions.
"""

import asyncio
import resource
import struct
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from time import perf_counter
from typing import TypeVar, cast
from urllib.parse import urlsplit

CHUNK_S = 0.1
CHUNK_BYTES = 3200
OPEN_DOOR = ("--set=limits.max_utilisation=100", "--set=limits.max_lag_ms=60000", "--set=limits.max_newcomers=100000")
"""A server's arguments: nobody is refused for the load."""
OPEN_TIMEOUT_S = 10.0
_START = b'{"type":"start","framing":"sequenced","mode":"online"}'
_END = b'{"type":"end"}'
_FLUSH = b'{"type":"flush","marker":""}'
_ACK = b'{"type":"ack","sequence":'
_ERROR = b'{"type":"error"'
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x81, 0x82, 0x88, 0x89, 0x8A
_CHUNK_HEADER = struct.pack("!BBH4x", _BINARY, 0x80 | 126, 8 + CHUNK_BYTES)
_PLAIN_HEADER = struct.pack("!BBH4x", _BINARY, 0x80 | 126, CHUNK_BYTES)


class Refused(ConnectionRefusedError):
    """The server told, at `at`, by an error which is `told`, that it opens no session."""

    def __init__(self, told: bytes, at: float) -> None:
        super().__init__(f"the server refused a session: {told.decode()}")
        self.told = told
        self.at = at


@dataclass(slots=True)
class Latencies:
    """Seconds from a chunk's handing to the socket until its ack was read; `lost` counts open sessions that broke."""

    seconds: list[float] = field(default_factory=list)
    lost: int = 0

    def take(self) -> list[float]:
        """Those since the last time, in growing order."""
        taken, self.seconds = self.seconds, []
        return sorted(taken)


class LoadSession(asyncio.Protocol):
    """One session: after `opened`, sends a chunk when told and notes how long its ack took."""

    def __init__(self, host: str, path: str, latencies: Latencies, start: bytes = _START) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refused: Refused | None = None  # known when `opened` is set
        self._latencies = latencies
        self._start = start
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {b64encode(token_bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._upgraded = False
        self._ended = False
        self._sequence = 0
        self._unacked: deque[float] = deque()  # bounded by the bench's length: a number for each chunk sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks for the WebSocket."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def send(self, audio: bytes) -> None:
        """Sends one chunk of CHUNK_BYTES."""
        self._unacked.append(perf_counter())
        self._write(_CHUNK_HEADER, struct.pack("!II", self._sequence, 0), audio)
        self._sequence += 1

    def send_plain(self, audio: bytes) -> None:
        """Sends one chunk of CHUNK_BYTES without a sequence, as the simplest clients do: no ack comes."""
        self._write(_PLAIN_HEADER, audio)

    def flush(self) -> None:
        """Closes what is open; `told` hears `flushed` once its final is out."""
        self._write(_control(_TEXT, _FLUSH))

    def end(self) -> None:
        """Sends no more; `closed` is set when the server has closed."""
        self._ended = True
        self._write(_control(_TEXT, _END))

    def leave(self) -> None:
        """Goes without a word."""
        self._ended = True
        self._close()

    def connection_lost(self, error: Exception | None) -> None:
        """The server has closed, or the session broke; one that never opened was refused, not lost."""
        self._latencies.lost += self.opened.done() and not self._ended
        for future in (self.opened, self.closed):
            if not future.done():
                future.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Reads frames."""
        now = perf_counter()
        data = self._buffer + data if self._buffer else data
        at = 0 if self._upgraded else self._upgrade(data)
        while (frame := _frame(data, at)) is not None:
            opcode, begin, at = frame
            self._take(opcode, data[begin:at], now)
        self._buffer = data[at:]

    def told(self, payload: bytes, now: float) -> None:
        """A message of the server that is no ack; who wants to know overrides it."""

    def _upgrade(self, data: bytes) -> int:
        head, found, _ = data.partition(b"\r\n\r\n")
        if not found:
            return 0
        self._upgraded = head.startswith(b"HTTP/1.1 101 ")
        if not self._upgraded:
            self._close()
            return len(data)
        self._write(_control(_TEXT, self._start))
        return len(head) + 4

    def _take(self, opcode: int, payload: bytes, now: float) -> None:
        if opcode == _TEXT and payload.startswith(_ACK):
            acked = int(payload[len(_ACK) : -1])
            while self._unacked and self._sequence - len(self._unacked) <= acked:
                self._latencies.seconds.append(now - self._unacked.popleft())
        elif opcode == _TEXT:
            if not self.opened.done():
                if payload.startswith(_ERROR):
                    self.refused = Refused(payload, now)
                    self._ended = True
                self.opened.set_result(None)
            self.told(payload, now)
        elif opcode == _PING:
            self._write(_control(_PONG, payload))
        elif opcode == _CLOSE:
            self._write(_control(_CLOSE, payload))
            self._close()

    def _write(self, *parts: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _control(opcode: int, payload: bytes) -> bytes:
    """A frame of at most 64 KiB, masked with zeros."""
    if len(payload) < 126:
        return struct.pack("!BB4x", opcode, 0x80 | len(payload)) + payload
    return struct.pack("!BBH4x", opcode, 0x80 | 126, len(payload)) + payload


def _frame(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Opcode, begin and end of the payload of the frame at `at`; None where it is not whole."""
    if len(data) < at + 2:
        return None
    opcode, length, begin = data[at], data[at + 1] & 0x7F, at + 2
    if length == 126:
        if len(data) < at + 4:
            return None
        length, begin = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
    end = begin + length
    return (opcode, begin, end) if len(data) >= end else None


Session = TypeVar("Session", bound=LoadSession)


async def open_session(url: str, latencies: Latencies) -> LoadSession:
    """Connects to a native WebSocket (`ws://`, loopback), and starts a sequenced session. Raises OSError."""
    return await connect(url, lambda host, path: LoadSession(host, path, latencies))


async def connect(url: str, make: Callable[[str, str], Session]) -> Session:
    """Connects what `make` makes of host and path, and waits until its session is open.

    Raises Refused where the server says why it opens none, and any other OSError where it does not: it cannot be
    reached, closes without a word, or says nothing for OPEN_TIMEOUT_S.
    """
    parts = urlsplit(url)
    async with asyncio.timeout(OPEN_TIMEOUT_S):
        _, session = await asyncio.get_running_loop().create_connection(
            lambda: make(parts.netloc, parts.path), parts.hostname or "", parts.port or 80
        )
        try:
            await session.opened
        except asyncio.CancelledError:
            session.leave()
            raise
    if session.refused is not None:
        raise session.refused
    if session.closed.done():
        raise ConnectionResetError("the server closed without a word")
    return session


def allow_files(wanted: int) -> None:
    """Raises the limit on open files, here and in the servers started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def quantile_ms(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of ordered seconds lie, in milliseconds; NaN of none."""
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")
