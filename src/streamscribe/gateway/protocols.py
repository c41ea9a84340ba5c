"""uvicorn's two protocols with the bounds that they lack: slow and large request heads, dead and silent peers.

uvicorn never closes a handshake that stalls, drops a peer that only reads slowly as if it were dead, keeps a dead
peer's connection until TCP gives up, and joins any number of fragments.
"""

import asyncio
import select
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from streamscribe.gateway.endpoint import TRANSPORT

MAX_HEAD_BYTES = 32 * 2**10
MAX_FRAGMENTS = 4096
WRITE_HIGH_BYTES = 32 * 2**10
"""More than so much written and not taken by the kernel: the writer waits."""
WRITE_LOW_BYTES = 8 * 2**10
LINGER_S = 5.0
"""A close frame has so long to be read, and to be answered, before the connection is dropped."""

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_BAD_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request head is not complete in time, or is larger than `MAX_HEAD_BYTES`."""

    def __init__(self, *args: Any, handshake_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._handshake_timeout_s = handshake_timeout_s
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected: its first request is awaited."""
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came, of a head (a kept connection's next one too) or of a body."""
        if not self._in_head and self._awaits_head():
            self._begin_head()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; what is raised here is answered 400."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + len(b": \r\n")
        if self._header_bytes > MAX_HEAD_BYTES:
            raise ValueError("request head too large")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._header_bytes = 0

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._end_head()
        super().on_headers_complete()

    def _awaits_head(self) -> bool:
        return self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body)

    def _begin_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(self._handshake_timeout_s, self._refuse, _TOO_LATE)

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, response: bytes) -> None:
        self._end_head()
        if not self.transport.is_closing():
            self.transport.write(response)
            self.transport.close()


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket whose peer cannot hold the connection by not reading, not answering, or by endless fragments.

    It is the `gateway.connection.Transport` of its connection, and lies in the ASGI scope's extensions.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard_at = 0.0
        self._farewell = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake's head was read."""
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        """Bytes came: the peer lives."""
        self._heard_at = self.loop.time()
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.close_sent:  # a head that is HTTP, but not to websockets
            self.handshake_complete = self.close_sent = True
            self.transport.write(_BAD_HANDSHAKE)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        super().connection_lost(exc)
        self._farewell.set()

    def handle_close(self, event: Frame) -> None:
        """The peer's close frame, which may answer ours."""
        super().handle_close(event)
        self._farewell.set()

    async def said_goodbye(self) -> bool:
        """Waits for the peer's close frame, or for the end of the connection without one."""
        await self._farewell.wait()
        return self.conn.close_rcvd is not None

    def handle_connect(self, event: Request) -> None:
        """Starts the application, which finds this object in its scope."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[TRANSPORT] = self

    def handle_cont(self, event: Frame) -> None:
        """A further fragment; empty ones count too."""
        if len(self.frames) >= MAX_FRAGMENTS:
            self.frames = []
            self.conn.fail(1009, f"a message may have {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_parser_exception(self) -> None:
        """The peer broke the protocol: it is told, and what it still sends is dropped until it leaves.

        A socket closed while data comes in resets, and the peer would lose the close code with it.
        """
        if self.close_sent:
            return
        told = self.conn.close_sent
        code, reason = (1006, "") if told is None else (told.code, told.reason)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def keepalive_timeout(self) -> None:
        """No pong came. A peer that sent anything since, or that is not being read, is not dead.

        Of one that is not read only the kernel knows whether it has closed its side.
        """
        if self.read_paused and _has_closed(self.transport):
            self.transport.abort()
            return
        if self.read_paused or self._heard_at > self.ping_sent_at:
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self.transport.abort()

    async def receive(self) -> Any:
        """The next ASGI event; a peer whose messages waited for us until now is not dead either."""
        event = await super().receive()
        self._heard_at = self.loop.time()
        return event

    async def send(self, message: Any) -> None:
        """Sends an ASGI event; after a close frame a peer that does not answer is dropped, read or not.

        Where this side has closed already (too large a message, no pong), the peer counts as gone.
        """
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True  # by a refusal, for which uvicorn would log an error
        if message["type"] == "websocket.close" and self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def force_close(self, code: int, reason: str) -> None:
        """Puts a close frame behind what was written, without waiting for a reader, and drops the peer soon after."""
        if self.close_sent or self.disconnected:
            return
        if self.transport.is_closing():  # the peer closed, and reads no answer
            self.transport.abort()
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        self.close_timer = self.loop.call_later(LINGER_S, self.transport.abort)


def _has_closed(transport: asyncio.Transport) -> bool:
    """Whether the peer sends nothing more, though what it sent before is still to be read."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))
