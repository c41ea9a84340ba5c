"""Connections of the simulation: byte streams between processes, and messages between clients and gateways."""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from streamscribe.bus.local.link import Link
from tests.sim.clock import Node

SOCKET_BYTES = 2**17
"""What a socket takes before its writer's own buffer fills."""

_NETWORK = contextvars.Context()
"""Of no process: what is under way arrives even if its sender stands still."""


class Delay:
    """How long things are under way: mostly short, at times long; each direction keeps its order."""

    def __init__(self, rng: random.Random, usual_s: float, *, slow: float = 0.0, slow_s: float = 0.0) -> None:
        self._rng = rng
        self._usual_s = usual_s
        self._slow = slow
        self._slow_s = slow_s

    def __call__(self) -> float:
        if self._rng.random() < self._slow:
            return self._rng.uniform(0, self._slow_s)
        return self._rng.uniform(0, self._usual_s)


class StreamEnd(asyncio.Transport):
    """One end of a connected stream socket. Bytes arrive late and in pieces of any size, never lost or reordered."""

    def __init__(self, node: Node, rng: random.Random, delay: Delay) -> None:
        super().__init__()
        self.node = node
        self.peer: StreamEnd
        self._rng = rng
        self._delay = delay
        self._protocol: Any = None
        self._coming: deque[tuple[float, bytes]] = deque()  # bytes for this end, and when they arrive
        self._coming_bytes = 0
        self._newest_at = 0.0
        self._paused = self._reading = False
        self._high, self._low = 2**16, 2**14
        self._writer_waits = False
        self._closing = self._closed = False

    def attach(self, protocol: Any) -> None:
        """Gives the socket to its user."""
        self._protocol = protocol
        protocol.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or self._high, low or self._low

    def get_write_buffer_size(self) -> int:
        return max(0, self.peer._coming_bytes - SOCKET_BYTES)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes) -> None:
        self.writelines((data,))

    def writelines(self, pieces: Iterable[bytes]) -> None:
        if self._closing:
            return
        data = b"".join(pieces)
        now, peer = asyncio.get_running_loop().time(), self.peer
        peer._newest_at = max(peer._newest_at, now + self._delay())
        peer._coming.append((peer._newest_at, data))
        peer._coming_bytes += len(data)
        peer._read_later()
        if not self._writer_waits and self.get_write_buffer_size() > self._high:
            self._writer_waits = True
            self._protocol.pause_writing()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._read_later()

    def close(self) -> None:
        """Ends the connection behind what was written."""
        if not self._closing:
            self._closing = True
            self._lost_at_both_ends()

    def abort(self) -> None:
        """Ends it at once: what the socket did not take yet is lost."""
        if not self._closing:
            self._closing = True
            self._cut_unsent()
            self._lost_at_both_ends()

    def kill(self) -> None:
        """Its process is gone: it hears nothing of it, and the peer gets what the socket had taken."""
        if not self._closed:
            self._closed = self._closing = True
            self._cut_unsent()
            self.peer._end_after_reading()

    def _cut_unsent(self) -> None:
        peer = self.peer
        while (over := peer._coming_bytes - SOCKET_BYTES) > 0:
            at, data = peer._coming.pop()
            kept = data[: max(0, len(data) - over)]
            peer._coming_bytes -= len(data) - len(kept)
            if kept:
                peer._coming.append((at, kept))

    def _lost_at_both_ends(self) -> None:
        self._coming.clear()
        self._coming_bytes = 0
        self.node.call(self._lose)
        self.peer._end_after_reading()

    def _end_after_reading(self) -> None:
        self._newest_at = max(self._newest_at, asyncio.get_running_loop().time())
        self._coming.append((self._newest_at, b""))
        self._read_later()

    def _lose(self) -> None:
        if not self._closed:
            self._closed = self._closing = True
            self._coming.clear()
            self._coming_bytes = 0
            self._protocol.connection_lost(None)

    def _read_later(self) -> None:
        if self._coming and not self._reading and not self._closed:
            self._reading = True
            asyncio.get_running_loop().call_at(self._coming[0][0], self._read, context=self.node.context)

    def _read(self) -> None:
        self._reading = False
        now = asyncio.get_running_loop().time()
        while self._coming and not self._paused and not self._closed and self._coming[0][0] <= now:
            at, data = self._coming.popleft()
            if not data:
                self._lose()
                return
            buffer = self._protocol.get_buffer(-1)
            most = len(buffer) if self._rng.random() < 0.9 else self._rng.randrange(1, 64)
            piece, rest = data[:most], data[most:]
            if rest:
                self._coming.appendleft((at, rest))
            self._coming_bytes -= len(piece)
            buffer[: len(piece)] = piece
            self._protocol.buffer_updated(len(piece))
            self.peer._written()
        if not self._paused:
            self._read_later()

    def _written(self) -> None:
        if self._writer_waits and self.get_write_buffer_size() <= self._low:
            self._writer_waits = False
            self.node.call(self._tell_writable)

    def _tell_writable(self) -> None:
        if not self._closed:
            self._protocol.resume_writing()


def link_pair(one: Node, other: Node, rng: random.Random, delay: Delay) -> tuple[tuple[StreamEnd, Link], ...]:
    """Two processes with a socket between them, and a real `Link` at each end."""
    ends = StreamEnd(one, rng, delay), StreamEnd(other, rng, delay)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    links = []
    for end in ends:
        link = Link()
        end.attach(link)
        links.append(link)
    return tuple(zip(ends, links, strict=True))


class Inbound:
    """Messages on their way to one end of a WebSocket, in order; `arrived` hears of each, read or not."""

    def __init__(self, delay: Delay, arrived: Callable[[Any], None] = lambda item: None) -> None:
        self._delay = delay
        self._arrived = arrived
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._coming: deque[Any] = deque()
        self._newest_at = 0.0
        self.cut = False

    def send(self, item: Any) -> None:
        loop = asyncio.get_running_loop()
        self._newest_at = max(self._newest_at, loop.time() + self._delay())
        self._coming.append(item)
        loop.call_at(self._newest_at, self._arrive, context=_NETWORK)

    def _arrive(self) -> None:
        item = self._coming.popleft()  # timers of one time may come in any order
        if not self.cut:
            self._take(item)

    def _take(self, item: Any) -> None:
        self._arrived(item)
        self._items.put_nowait(item)

    def cut_off(self, last: Any, after_s: float) -> None:
        """What is under way is lost; the end hears `last` after a while."""
        self.cut = True
        asyncio.get_running_loop().call_later(after_s, self._take, last, context=_NETWORK)

    async def get(self) -> Any:
        return await self._items.get()


class Closed(Exception):
    """The connection is over, as its client sees it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class WebSocket:
    """A client's connection: at the gateway an ASGI `receive` and `send`, and what its listener offers beyond them."""

    def __init__(self, delay: Delay) -> None:
        self._to_gateway = Inbound(delay, self._note)
        self._to_client = Inbound(delay)
        self.writable = asyncio.Event()
        self.writable.set()
        self._broken = self._closed = False
        self._goodbye: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    # the client's side

    def transmit(self, frame: bytes | str) -> None:
        """Sends a frame; on a broken connection it is lost."""
        if not self._broken:
            kind = "text" if isinstance(frame, str) else "bytes"
            self._to_gateway.send({"type": "websocket.receive", kind: frame})

    async def recv(self) -> str:
        """The next message; raises Closed at the end."""
        item = await self._to_client.get()
        if isinstance(item, str):
            return item
        if not self._broken:  # the client answers the close
            self._to_gateway.send({"type": "websocket.disconnect"})
        raise Closed(item)

    def sever(self, noticed_after_s: float) -> None:
        """The network between them is gone; the gateway notices later."""
        if not self._broken:
            self._broken = True
            self._to_client.cut_off(1006, 0.0)
            self._to_gateway.cut_off({"type": "websocket.disconnect"}, noticed_after_s)

    # the gateway's side

    async def receive(self) -> dict[str, Any]:
        """ASGI's."""
        event: dict[str, Any] = await self._to_gateway.get()
        return event

    def _note(self, event: dict[str, Any]) -> None:
        if event["type"] == "websocket.disconnect" and not self._goodbye.done():
            self._goodbye.set_result(not self._broken)

    async def send(self, event: dict[str, Any]) -> None:
        """ASGI's."""
        if event["type"] == "websocket.close":
            self._close(event["code"])
        else:
            self._to_client.send(event["text"])

    def force_close(self, code: int, reason: str) -> None:
        """Puts a close behind what was written."""
        self._close(code)

    async def said_goodbye(self) -> bool:
        """Whether the client answered the close; once its last frame is here, read or not."""
        return await asyncio.shield(self._goodbye)

    def _close(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self._to_client.send(code)


Serve = Callable[[WebSocket, str], None]
"""Has a gateway serve a connection for a session's address."""
