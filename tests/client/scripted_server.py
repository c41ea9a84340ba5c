"""A small server that says what each test scripts, connection by connection."""

import json
from collections.abc import Awaitable, Callable

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from streamscribe.client.native import NativeClient
from streamscribe.core.errors import (
    StreamScribeError,
)
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.messages import (
    Ack,
    Closed,
    Connected,
    ErrorSent,
    ResultSent,
    ServerMessage,
    SessionBounds,
)
from streamscribe.core.results import Result, ResultType
from streamscribe.wire.frames import unpack_frame
from streamscribe.wire.native_server import (
    encode_server_message,
)

SESSION = SessionId("s-1")


class Peer:
    """The server's end of one connection."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def say(self, *messages: ServerMessage) -> None:
        for message in messages:
            await self.socket.send(encode_server_message(message))

    async def greet(self, window_s: float = 30.0, durability: str = "process") -> None:
        bounds = SessionBounds(2**20, 3600, 30.0, window_s)
        await self.say(Connected(SESSION, TenantId("t"), TraceId("t"), "secret", durability, bounds))

    async def hear(self):
        """The next message: a parsed control message, or the audio."""
        message = await self.socket.recv()
        return unpack_frame(message) if isinstance(message, bytes) else json.loads(message)

    async def hear_all(self, count: int) -> list:
        return [await self.hear() for _ in range(count)]

    async def final(self, version: int, text: str = "one") -> None:
        result = Result(ResultType.FINAL, 2, version, version, 0, 0, text, len(text), 0, 100)
        await self.say(ResultSent(SESSION, TraceId("t"), result))

    async def fail(self, error: StreamScribeError) -> None:
        await self.say(ErrorSent(error))
        await self.socket.close(error.close_code)

    def vanish(self) -> None:
        self.socket.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class Server:
    """Runs one script per connection; a script that fails, fails the test."""

    def __init__(self, *scripts: Script, refuse: Callable[[Request], Response | None] | None = None) -> None:
        self.requests: list[Request] = []
        self._scripts = list(scripts)
        self._refuse = refuse
        self._failures: list[BaseException] = []

    async def __aenter__(self) -> "Server":
        self._server = await serve(self._handle, "127.0.0.1", 0, process_request=self._process, compression=None)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"ws://127.0.0.1:{port}/ws/asr?hotwords=a"
        return self

    async def __aexit__(self, kind, error, trace) -> None:
        self.stop()
        await self._server.wait_closed()
        if self._failures:
            raise self._failures[0]
        assert not self._scripts or kind, "a connection that was expected did not come"

    def stop(self) -> None:
        self._server.close()

    async def _process(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        return self._refuse(request) if self._refuse else None

    async def _handle(self, socket: ServerConnection) -> None:
        script = self._scripts.pop(0)
        try:
            await script(Peer(socket))
        except BaseException as error:
            self._failures.append(error)
            raise


async def read_all(client: NativeClient) -> list:
    return [message async for message in client]


async def simple(peer: Peer) -> None:
    """Greets, hears to the end, says one final."""
    await peer.greet()
    while (message := await peer.hear()) != {"type": "end"}:
        if not isinstance(message, dict):
            await peer.say(Ack(message.sequence))
    await peer.final(1)
    await peer.say(Closed("end", 100))
    await peer.socket.close()


def server_headers(retry_after: str | None = None, size_bytes: int = 0) -> Headers:
    headers = Headers({"Content-Length": str(size_bytes)})
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return headers
