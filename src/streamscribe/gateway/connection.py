"""One WebSocket: a dialect between frames and messages, a session behind, and one writer that merges guesses."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from starlette.types import Message, Receive, Send

from streamscribe.core.errors import BadRequest, SessionSuperseded, SlowReader, StreamScribeError, Timeout
from streamscribe.core.ids import SessionId
from streamscribe.core.messages import ClientMessage, ErrorSent, Invalid, Resume, ServerMessage, Start
from streamscribe.core.options import SessionOptions
from streamscribe.gateway.awake import within
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.outbox import Outbox
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings
from streamscribe.wire.dialect import Dialect

MAX_REASON_BYTES = 123
"""RFC 6455: a close frame has 125 bytes, two of them the code."""

RESUME_GRACE_S = 1.0
"""Who names a session has so long to say that it resumes one of another gateway, before it is told that no new one is
let in."""

LAST_WORDS_S = 1.0
"""What a client said before it went has so long to be heard: behind it, its going may never be read."""


class Transport(Protocol):
    """What the listener offers beyond ASGI: when the peer reads, and a close that waits for no reader."""

    writable: asyncio.Event

    async def said_goodbye(self) -> bool:
        """Waits for the peer's close frame, or for the end of the connection without one."""
        ...

    def force_close(self, code: int, reason: str) -> None:
        """Puts a close frame behind what was written, and drops the connection soon after."""
        ...


class Connection:
    """Reads, decodes and hands messages to the session; is the session's sink.

    Reading goes no faster than the session allows. What the client does not read is bounded by `max_unread_bytes` of
    facts and `slow_reader_timeout_s`; beyond either, the session ends and the connection is closed 4408.
    """

    __slots__ = (
        "_closing",
        "_dialect",
        "_error",
        "_fresh",
        "_group",
        "_hub",
        "_left",
        "_limits",
        "_live",
        "_options",
        "_outbox",
        "_receive",
        "_refused",
        "_resumable",
        "_send",
        "_tenant",
        "_transport",
        "_waiter",
    )

    def __init__(
        self,
        hub: Hub,
        limits: LimitSettings,
        tenant: Tenant,
        options: SessionOptions,
        *,
        dialect: Dialect,
        receive: Receive,
        send: Send,
        transport: Transport,
        resumable: bool,
    ) -> None:
        self._hub = hub
        self._tenant = tenant
        self._dialect = dialect
        self._options = options
        self._limits = limits
        self._receive = receive
        self._send = send
        self._transport = transport
        self._resumable = resumable
        self._group = asyncio.TaskGroup()
        self._outbox = Outbox(int(limits.max_unread_bytes))
        self._live: LiveSession | None = None
        self._left: LiveSession | None = None
        self._fresh = True
        self._closing = False
        self._refused: StreamScribeError | None = None
        self._error: StreamScribeError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def serve(self, session_id: SessionId | None) -> None:
        """Serves an accepted WebSocket until it is closed. A known `session_id` waits for its `resume`.

        After `refuse` it only sees to the close.
        """
        async with self._group:
            self._own(self._write())
            watch = self._group.create_task(self._watch())
            try:
                known = session_id is not None and self._hub.is_known(self._tenant, session_id)
                if not known and not self._closing:
                    self._open(session_id)
                await self._read()
            finally:
                watch.cancel()
                self._hang_up()
        if self._left is not None and not self._left.over and await self._transport.said_goodbye():
            self._left.delivered()

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that ends with the connection."""
        self._group.create_task(work)

    def refuse(self, error: StreamScribeError) -> None:
        """Tells the client an error, then closes."""
        self.send(ErrorSent(error))
        self.close(error)

    def send(self, message: ServerMessage) -> None:
        """Takes a message of the session (Sink)."""
        if self._closing:
            return
        self._outbox.put(message)
        if self._outbox.full:
            asyncio.get_running_loop().call_soon(self._give_up)
        self._wake()

    def close(self, error: StreamScribeError | None) -> None:
        """The session is done with this connection (Sink); it is closed unless another session may follow on it."""
        if not isinstance(error, SessionSuperseded):
            self._left = self._live
        self._live = None
        if error is None and self._dialect.reusable:
            return
        self._closing = True
        self._error = error
        self._wake()

    async def _read(self) -> None:
        while (event := await self._next())["type"] != "websocket.disconnect":
            if not self._closing:
                await self._hear(event)

    async def _hear(self, event: Message) -> None:
        data = event.get("bytes")
        decoded = self._dialect.decode_text(event["text"]) if data is None else self._dialect.decode_binary(data)
        for message in decoded:
            if not self._closing:
                await self._take(message)

    async def _next(self) -> Message:
        """The next event; without a session, whose timers would see to it, only so long is waited for one."""
        if self._live is None and not self._closing:
            wait_s = self._limits.idle_timeout_s if self._refused is None else RESUME_GRACE_S
            try:
                async with within(wait_s):
                    return await self._receive()
            except TimeoutError:
                self.refuse(self._refused or Timeout())
        return await self._receive()

    async def _take(self, message: ClientMessage) -> None:
        fresh, self._fresh = self._fresh, False
        if isinstance(message, Resume):
            if fresh:
                await self._resume(message)
                return
            message = Invalid(BadRequest("resume must be the first message"))
        if self._refused is not None:
            self.refuse(self._refused)
        elif self._live is None and not self._dialect.reusable:
            self.refuse(BadRequest("the session of this address exists: the first message must be resume"))
        elif self._live is None:
            self._open(None)
        if self._live is not None and isinstance(message, Start):
            self._choose(self._live, message.options)
        if self._live is not None:
            await self._live.receive(message)

    def _choose(self, live: LiveSession, options: SessionOptions) -> None:
        try:
            self._hub.choose(live, options)
        except StreamScribeError as error:
            self._live = None
            self.refuse(error)

    def _open(self, session_id: SessionId | None) -> None:
        try:
            self._live = self._hub.open(
                self._tenant,
                self._options,
                self,
                session_id=session_id,
                resumable=self._resumable,
                undecided=self._dialect.reusable,  # each utterance begins with a start
            )
        except StreamScribeError as error:
            if session_id is not None and self._hub.takes_over:
                self._refused = error
            else:
                self.refuse(error)

    async def _resume(self, message: Resume) -> None:
        self._refused = None
        if self._live is not None:
            fresh, self._live = self._live, None
            self._hub.withdraw(fresh)
        try:
            live = await self._hub.resume_anywhere(self._tenant, message, self)
        except StreamScribeError as error:
            self.refuse(error)
            return
        if self._closing:  # it had ended, and has said its last words
            self._left = live
        else:
            self._live = live

    async def _watch(self) -> None:
        """Sees a client go while what it said waits, for room on the bus or for its turn, and nothing more is read."""
        await self._transport.said_goodbye()
        while not self._closing:
            await asyncio.sleep(LAST_WORDS_S)
            if self._live is not None:  # else it may be on its way here
                self._hang_up()

    def _hang_up(self) -> None:
        """The client is gone."""
        live, self._live = self._live, None
        self._closing = True
        self._wake()
        if live is None:
            return
        if self._resumable:
            live.detach()
        else:
            live.abandon()

    async def _write(self) -> None:
        try:
            while True:
                message = self._outbox.pop()
                if message is not None:
                    for text in self._encode(message):
                        await self._put({"type": "websocket.send", "text": text})
                elif self._closing:
                    code, reason = _close_frame(self._error)
                    await self._put({"type": "websocket.close", "code": code, "reason": reason})
                    return
                else:
                    self._waiter = asyncio.get_running_loop().create_future()
                    await self._waiter
        except TimeoutError:
            self._give_up()
        except OSError:  # the peer is gone; the reader sees it too
            self._closing = True

    def _encode(self, message: ServerMessage) -> list[str]:
        return self._dialect.encode(message)

    async def _put(self, event: Message) -> None:
        if not self._transport.writable.is_set():
            async with within(self._limits.slow_reader_timeout_s):
                await self._transport.writable.wait()
        await self._send(event)

    def _give_up(self) -> None:
        """The client does not read: nothing more is held for it."""
        error = SlowReader()
        live, self._live = self._live, None
        self._closing = True
        self._outbox = Outbox(0)
        if live is not None:
            live.kill(error)
        self._transport.force_close(*_close_frame(error))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _close_frame(error: StreamScribeError | None) -> tuple[int, str]:
    if error is None:
        return 1000, ""
    return error.close_code, error.message.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
