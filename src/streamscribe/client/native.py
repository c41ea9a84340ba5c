"""A client of the native protocol that survives a broken connection without losing or doubling a final."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self, cast

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from streamscribe.client.address import with_parameter
from streamscribe.client.addresses import OPEN_TIMEOUT_S, Addresses
from streamscribe.client.errors import ConnectionLost, NotResumed, ServerError, SessionEnded, refusal
from streamscribe.client.greeting import GREETING_TIMEOUT_S, greeting
from streamscribe.client.inbox import Inbox
from streamscribe.client.send_log import SendLog, Sent
from streamscribe.client.watched import WatchedConnection
from streamscribe.core.errors import Draining, SessionNotFound
from streamscribe.core.options import Hotword
from streamscribe.wire.frames import pack_frame
from streamscribe.wire.native_client import (
    EndMessage,
    FlushMessage,
    PingMessage,
    ResumeMessage,
    StartMessage,
    UpdateMessage,
)
from streamscribe.wire.native_server import (
    AckMessage,
    ClosedMessage,
    ConnectedMessage,
    ErrorMessage,
    FlushedMessage,
    GoAwayMessage,
    ResultMessage,
    ResumedMessage,
    ServerWire,
    decode_server_message,
)

PONG_TIMEOUT_S = 120.0
"""Pings wait behind what was sent before, and a server reads live audio at twice real time only."""
SILENCE_TIMEOUT_S = 45.0
"""A server that cannot read pings every 40 s, else every 20 s, and keeps the session of a client that answers nothing
for 50 s at least: between the two a connection that only seems open is given up."""
CLOSE_TIMEOUT_S = 2.0
MAX_MESSAGE_BYTES = 4 * 2**20
FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 3.0
MAX_UNACKED_BYTES = 16 * 2**20

_BROKEN = 1006
_GOING_AWAY = (1001, _BROKEN, 1012)
"""Close codes after which the session may live on; 1006 is a connection that broke without one."""

_encode = msgspec.json.Encoder().encode


class NativeClient:
    """One session: an async context manager that sends audio, and an async iterator over what the server says.

    With `resume`, audio is sent sequenced and kept until it is acknowledged (at most `max_unacked_bytes`; `send`
    waits beyond it); when the connection breaks, or nothing comes for `silence_timeout_s`, it is opened anew within the
    server's window and goes on where it stopped. Of several URLs the next one is tried after each that fails, refuses
    for now, or does not know the session; where sessions outlive their servers, also first, when the connection broke
    without a close or the server said that it goes away. Unread partials are merged. Iteration ends after `closed`;
    every other end raises, after the messages that came before it: SessionEnded with the server's reason, or
    ConnectionLost. Entering raises ServerError or ConnectionLost.
    """

    connected: ConnectedMessage

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        key: str | None = None,
        start: StartMessage | None = None,
        resume: bool = True,
        max_unacked_bytes: int = MAX_UNACKED_BYTES,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
        on_lost: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`on_lost` is told each time the connection breaks under a session, and for how long it is opened anew."""
        framing = "sequenced" if resume else "plain"
        self._addresses = Addresses((url,) if isinstance(url, str) else url)
        self._leaving: asyncio.TimerHandle | None = None
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._start = msgspec.structs.replace(start or StartMessage(), framing=framing)
        self._resume = resume
        self._silence_timeout_s = silence_timeout_s
        self._on_lost = on_lost
        self._log = SendLog(max_unacked_bytes)
        self._inbox = Inbox()
        self._sending = asyncio.Lock()
        self._room = asyncio.Condition()
        self._socket: WatchedConnection | None = None
        self._connections = 0
        self._last_version = 0
        self._last_error: ErrorMessage | None = None
        self._retry_after_s = 0.0
        self._over = False
        self._failure: Exception | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._socket = socket = await self._greeted_anywhere()
        await self._control(self._start)
        self._reader = asyncio.create_task(self._run(socket))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None and not self._reader.cancelled():
            self._reader.result()

    async def send(self, data: bytes) -> None:
        """Sends a chunk of audio; returns when it is on its way, or kept for a connection to come.

        Raises what ended the session, where it has ended.
        """
        if self._resume:
            async with self._room:
                await self._room.wait_for(lambda: not self._log.full or self._over)
        if self._over:
            raise self._failure or ConnectionLost("the session is over")
        frame = pack_frame(self._log.next_sequence, data) if self._resume else data
        await self._transmit(self._log.audio(frame))
        if not self._resume:
            self._log.ack(self._log.next_sequence - 1)

    async def flush(self, marker: str = "") -> None:
        """Asks for a final now; `flushed` with the marker says when it is out."""
        await self._transmit(self._log.control(_encode(FlushMessage(marker)).decode(), marker))

    async def update(self, hotwords: Iterable[Hotword]) -> None:
        """Replaces the hot words."""
        listed = [{"phrase": hotword.phrase, "weight": hotword.weight} for hotword in hotwords]
        await self._control(UpdateMessage(hotwords=listed))

    async def ping(self) -> None:
        """Keeps a session without audio alive."""
        await self._control(PingMessage())

    async def end(self) -> None:
        """No more audio; `closed` comes after the last final."""
        await self._control(EndMessage())

    def drop_connection(self) -> None:
        """Breaks the connection as a network would, without a close frame; for tests and measurements of a resume."""
        if self._socket is not None:
            self._socket.transport.abort()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerWire:
        return await self._inbox.get()

    async def _control(self, message: msgspec.Struct) -> None:
        await self._transmit(self._log.control(_encode(message).decode()))

    async def _transmit(self, sent: Sent) -> None:
        """Puts a frame on the connection, once per connection; without one it waits in the log."""
        async with self._sending:
            if self._socket is None or sent.connection == self._connections:
                return
            sent.connection = self._connections
            try:
                await self._socket.send(sent.frame)
            except ConnectionClosed:
                return  # whoever reads the connection sees the same, and knows what to do

    async def _run(self, socket: WatchedConnection) -> None:
        """Reads one connection after the other until the session is over."""
        self._failure = ConnectionLost("the client failed")
        try:
            async with asyncio.TaskGroup() as group:
                while (lost := await self._read(socket)) is not None:
                    socket, next_sequence = await self._reconnect(lost)
                    group.create_task(self._replay(socket, next_sequence))
            self._failure = None
        except* (ServerError, ConnectionLost) as errors:
            self._failure = errors.exceptions[0]
        finally:
            self._over = True
            async with self._room:
                self._room.notify_all()
            await self._inbox.finish(self._failure)
            await socket.close()

    async def _read(self, socket: WatchedConnection) -> ConnectionClosed | None:
        """Reads a connection to its end; None when the session is over."""
        watching = asyncio.create_task(socket.break_when_silent(self._silence_timeout_s))
        try:
            while True:
                message = decode_server_message(await socket.recv())
                await self._take(message)
                if isinstance(message, ClosedMessage):
                    return None
        except ConnectionClosed as closed:
            return closed
        except ValueError as error:
            raise ConnectionLost("the server does not speak this protocol") from error
        finally:
            watching.cancel()

    async def _take(self, message: ServerWire) -> None:
        self._last_error = message if isinstance(message, ErrorMessage) else None
        match message:
            case ResultMessage():
                if message.version <= self._last_version:
                    return
                self._last_version = message.version
            case AckMessage():
                self._log.ack(message.sequence)
                async with self._room:
                    self._room.notify_all()
            case FlushedMessage():
                self._log.flushed(message.marker)
            case GoAwayMessage():
                self._go_away(message)
        await self._inbox.put(message)

    def _go_away(self, message: GoAwayMessage) -> None:
        """Where another server can go on, it is asked soon; else this one is spoken to until it closes."""
        if self._resume and self._outlives_its_server:
            if self._leaving is None:
                loop = asyncio.get_running_loop()
                self._leaving = loop.call_later(message.retry_after_ms / 1000, self.drop_connection)
        else:
            self._retry_after_s = message.retry_after_ms / 1000

    @property
    def owed(self) -> bool:
        """Whether a server is there, and has not said yet that it has all the audio that it was sent."""
        return self._socket is not None and self._log.waits

    @property
    def url(self) -> str:
        """Of the server that is spoken to, of several the last that was tried."""
        return self._addresses.current

    @property
    def _outlives_its_server(self) -> bool:
        """Whether another server can go on with the session."""
        return self.connected.durability == "log"

    async def _reconnect(self, lost: ConnectionClosed) -> tuple[WatchedConnection, int]:
        """Resumes the session on a new connection; gives it, and the sequence where the server goes on."""
        # Where it was this side that closed, for bytes that are no WebSocket's, the network broke it.
        code = _BROKEN if lost.rcvd is None or lost.rcvd_then_sent is False else lost.rcvd.code
        error = self._last_error
        if error is not None and code in _GOING_AWAY and self._resume and error.name != Draining.code:
            error = None  # it ended nothing, or who resumes is told again
        if error is not None and error.retry != "resume":
            raise SessionEnded(error, self.url)
        if not self._resume or (code not in _GOING_AWAY and error is None):
            raise ConnectionLost(f"the connection was closed with code {code}", code)
        self._socket = None
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if code == _BROKEN and self._outlives_its_server:  # nobody knows whether it is still there
            self._addresses.move_on()
        self._addresses.begin()
        patience_s = self._retry_after_s + self.connected.limits.resume_window_s
        give_up_at = asyncio.get_running_loop().time() + patience_s
        self._on_lost(patience_s)
        wait_s, self._retry_after_s = self._retry_after_s, 0.0
        backoff_s = FIRST_BACKOFF_S
        strangers: set[str] = set()
        while True:
            await asyncio.sleep(wait_s + backoff_s * random.uniform(0.5, 1.0))
            try:
                return await self._resumed()
            except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake) as failed:
                if asyncio.get_running_loop().time() > give_up_at:
                    raise NotResumed("the session could not be resumed in time") from failed
            except ServerError as refused:
                refused.url = self._addresses.current
                for_good = refused.error.retry == "never"
                if refused.error.name == SessionNotFound.code:
                    strangers.add(self._addresses.current)
                    for_good = len(strangers) == len(self._addresses)
                if for_good or asyncio.get_running_loop().time() > give_up_at:
                    raise
            self._addresses.move_on()
            wait_s = 0.0
            backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    async def _resumed(self) -> tuple[WatchedConnection, int]:
        url = with_parameter(self._addresses.current, "session_id", self.connected.session_id)
        socket = await self._connect(url, self._addresses.patience_s())
        try:
            resume = ResumeMessage(
                session_id=self.connected.session_id,
                resume_token=self.connected.resume_token,
                last_version=self._last_version,
                last_acked_sequence=self._log.acked,
                framing="sequenced",
            )
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await socket.send(_encode(resume).decode())
                while not isinstance(message := decode_server_message(await socket.recv()), ResumedMessage):
                    if isinstance(message, ErrorMessage):
                        raise ServerError(message)
        except BaseException:
            await socket.close()
            raise
        await self._take(message)
        return socket, message.next_sequence

    async def _replay(self, socket: WatchedConnection, next_sequence: int) -> None:
        """Sends again what the server has not seen, before anything new; beside the reading, which must go on."""
        async with self._sending:
            self._socket = socket
            self._connections += 1
            try:
                for sent in list(self._log.replay(next_sequence)):
                    sent.connection = self._connections
                    await socket.send(sent.frame)
            except ConnectionClosed:
                return  # the reading sees it too

    async def _greeted_anywhere(self) -> WatchedConnection:
        """A connection to the first server that lets us in; each is asked once.

        Raises what the last server that spoke said, or that none can be reached.
        """
        refused: ServerError | None = None
        failed: ServerError | ConnectionLost
        for left in reversed(range(len(self._addresses))):
            try:
                return await self._greeted(self._addresses.current, self._addresses.patience_s(last=not left))
            except ServerError as error:
                error.url = self._addresses.current
                if error.error.retry == "never":  # elsewhere it would hear the same
                    raise
                refused = failed = error
            except ConnectionLost as error:
                failed = error
            self._addresses.move_on()
        raise refused or failed

    async def _greeted(self, url: str, patience_s: float) -> WatchedConnection:
        try:
            socket = await self._connect(url, patience_s)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise ConnectionLost("the server cannot be reached") from error
        try:
            self.connected = await greeting(socket, min(patience_s, GREETING_TIMEOUT_S))
        except TimeoutError:  # who does not greet might not say goodbye either
            socket.transport.abort()
            # Without its cause: to callers an OSError beneath means that nothing listens there.
            raise ConnectionLost("what answers there does not greet as StreamScribe's native WebSocket does") from None
        except BaseException:
            await socket.close()
            raise
        return socket

    async def _connect(self, url: str, patience_s: float) -> WatchedConnection:
        try:
            socket = await connect(
                url,
                additional_headers=self._headers,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=patience_s,
                close_timeout=CLOSE_TIMEOUT_S,
                ping_timeout=PONG_TIMEOUT_S,
                create_connection=WatchedConnection,
            )
            return cast(WatchedConnection, socket)
        except InvalidStatus as refused:
            raise refusal(refused) from None
