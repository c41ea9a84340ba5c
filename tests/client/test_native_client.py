"""The native client against a small server that says what each test scripts, connection by connection."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from streamscribe.client.errors import ConnectionLost, ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core.errors import (
    Draining,
    QuotaExceeded,
    SequenceGap,
    SessionNotFound,
    SlowReader,
    StreamScribeError,
)
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.messages import (
    Ack,
    Closed,
    Connected,
    ErrorSent,
    FlushDone,
    GoAway,
    ResultSent,
    Resumed,
    ServerMessage,
    SessionBounds,
)
from streamscribe.core.options import Hotword
from streamscribe.core.results import Result, ResultType
from streamscribe.wire.frames import unpack_frame
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import (
    AckMessage,
    ClosedMessage,
    ErrorMessage,
    GoAwayMessage,
    ResultMessage,
    ResumedMessage,
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

    async def greet(self, window_s: float = 30.0) -> None:
        bounds = SessionBounds(2**20, 3600, 30.0, window_s)
        await self.say(Connected(SESSION, TenantId("t"), TraceId("t"), "secret", "process", bounds))

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


async def test_a_session_from_greeting_to_closed():
    heard: list = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        heard.extend(await peer.hear_all(6))
        await peer.say(Ack(1), FlushDone("m"))
        await peer.final(1)
        await peer.say(Closed("end", 100))

    async with Server(script) as server:
        async with NativeClient(server.url, key="k1", start=StartMessage(language="zh")) as client:
            assert client.connected.session_id == "s-1"
            await client.send(b"ab")
            await client.send(b"cd")
            await client.flush("m")
            await client.update([Hotword("x", 2.0)])
            await client.end()
            messages = await read_all(client)
        assert server.requests[0].headers["Authorization"] == "Bearer k1"
        assert "permessage-deflate" not in server.requests[0].headers.get("Sec-WebSocket-Extensions", "")
    assert heard[0] == {"type": "start", "language": "zh", "framing": "sequenced"}
    assert [(audio.sequence, audio.data) for audio in heard[1:3]] == [(0, b"ab"), (1, b"cd")]
    assert heard[3:] == [
        {"type": "flush", "marker": "m"},
        {"type": "update", "hotwords": [{"phrase": "x", "weight": 2.0}]},
        {"type": "end"},
    ]
    assert isinstance(messages[-1], ClosedMessage)


async def test_plain_framing_sends_the_bytes_as_they_are():
    async def script(peer: Peer) -> None:
        await peer.greet()
        assert await peer.hear() == {"type": "start", "framing": "plain"}
        assert await peer.socket.recv() == b"ab"
        assert await peer.hear() == {"type": "ping"}
        await peer.say(Closed("end", 0))

    async with Server(script) as server, NativeClient(server.url, resume=False) as client:
        await client.send(b"ab")
        await client.ping()
        assert isinstance((await read_all(client))[-1], ClosedMessage)
        with pytest.raises(ConnectionLost):
            await client.send(b"too late")


async def test_after_a_broken_socket_nothing_is_lost_and_no_final_is_doubled():
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear_all(4)
        await peer.say(Ack(0))
        await peer.final(1)
        await peer.hear()  # the client has the final before the connection breaks
        peer.vanish()

    async def second(peer: Peer) -> None:
        assert await peer.hear() == {
            "type": "resume", "session_id": "s-1", "resume_token": "secret", "last_version": 1,
            "last_acked_sequence": 0, "framing": "sequenced",
        }  # fmt: skip
        await peer.say(Resumed(SESSION, 2, 1))
        await peer.final(1)
        heard = await peer.hear_all(3)
        assert [(audio.sequence, audio.data) for audio in heard[:2]] == [(2, b"c"), (3, b"d")]
        assert heard[2] == {"type": "end"}
        await peer.final(2)
        await peer.say(Closed("end", 0))

    async with Server(first, second) as server:
        async with NativeClient(server.url) as client:
            for data in (b"a", b"b", b"c"):
                await client.send(data)
            async for message in client:
                if isinstance(message, ResultMessage):
                    break
            await client.send(b"d")
            await client.end()
            rest = await read_all(client)
        assert "session_id=s-1" in server.requests[1].path
        assert "hotwords=a" in server.requests[1].path
    assert [message.version for message in rest if isinstance(message, ResultMessage)] == [2]
    assert any(isinstance(message, ResumedMessage) for message in rest)


async def test_what_was_not_answered_is_asked_again():
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear_all(5)
        peer.vanish()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.say(Resumed(SESSION, 1, 0))
        assert await peer.hear_all(2) == [{"type": "flush", "marker": "early"}, {"type": "flush", "marker": "late"}]
        assert (await peer.hear())["type"] == "update"
        await peer.say(FlushDone("early"), FlushDone("late"), Closed("end", 0))

    async with Server(first, second) as server, NativeClient(server.url) as client:
        await client.flush("early")
        await client.send(b"a")
        await client.flush("late")
        await client.update([])
        assert isinstance((await read_all(client))[-1], ClosedMessage)


@pytest.mark.parametrize("error", [SequenceGap(), Draining()])
async def test_an_error_that_says_resume_is_followed(error):
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        await peer.fail(error)

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.say(Resumed(SESSION, 0, 0))
        assert (await peer.hear())["type"] == "start"
        await peer.say(Closed("end", 0))

    async with Server(first, second) as server, NativeClient(server.url) as client:
        messages = await read_all(client)
    assert isinstance(messages[0], ErrorMessage)


async def test_go_away_is_told_and_the_session_moves():
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        await peer.say(GoAway(1000, 20))
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        await peer.greet()  # a server that does not know the session greets first
        await peer.hear()
        await peer.say(Resumed(SESSION, 0, 0), Closed("end", 0))

    async with Server(first, second) as server, NativeClient(server.url) as client:
        messages = await read_all(client)
    assert [type(message) for message in messages] == [GoAwayMessage, ResumedMessage, ClosedMessage]


async def test_a_session_that_is_gone_is_an_error():
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        peer.vanish()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.fail(SessionNotFound())

    async with Server(first, second) as server, NativeClient(server.url) as client:
        with pytest.raises(ServerError) as caught:
            await read_all(client)
        assert caught.value.error.name == "session_not_found"
        with pytest.raises(ServerError):
            await client.send(b"a")


async def test_a_server_that_stays_away_is_given_up_after_its_window():
    async def first(peer: Peer) -> None:
        await peer.greet(window_s=0.0)
        await peer.hear()
        server.stop()
        peer.vanish()

    async with Server(first) as server, NativeClient(server.url) as client:
        with pytest.raises(ConnectionLost, match="in time"):
            await read_all(client)


async def test_a_server_that_is_full_is_tried_again():
    refusals = [Response(503, "busy", server_headers("1"), b""), None]

    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        peer.vanish()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.say(Resumed(SESSION, 0, 0), Closed("end", 0))

    def refuse(request: Request) -> Response | None:
        return refusals.pop(0) if "session_id" in request.path else None

    async with Server(first, second, refuse=refuse) as server, NativeClient(server.url) as client:
        assert isinstance((await read_all(client))[-1], ClosedMessage)
    assert not refusals


def server_headers(retry_after: str | None = None, size_bytes: int = 0) -> Headers:
    headers = Headers({"Content-Length": str(size_bytes)})
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return headers


async def test_without_resume_a_broken_socket_is_an_error():
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        await peer.final(1)
        peer.vanish()

    async with Server(script) as server, NativeClient(server.url, resume=False) as client:
        assert isinstance(await anext(client), ResultMessage)
        with pytest.raises(ConnectionLost):
            await anext(client)


async def test_an_error_of_the_session_comes_after_its_last_messages():
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        await peer.final(1)
        await peer.fail(SlowReader())

    async with Server(script) as server, NativeClient(server.url) as client:
        assert isinstance(await anext(client), ResultMessage)
        assert isinstance(await anext(client), ErrorMessage)
        with pytest.raises(ServerError, match="slow_reader"):
            await anext(client)


async def test_a_refusal_in_band_raises_on_entering():
    async def script(peer: Peer) -> None:
        await peer.fail(QuotaExceeded())

    async with Server(script) as server:
        with pytest.raises(ServerError) as caught:
            async with NativeClient(server.url):
                pass
    assert (caught.value.error.code, caught.value.error.name) == (429, "quota_exceeded")


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (HTTPStatus.UNAUTHORIZED, b'{"error":{"code":"unauthenticated","message":"no"}}', None,
         (401, "unauthenticated", "never")),
        (HTTPStatus.SERVICE_UNAVAILABLE, b"busy", "7", (503, "http_503", "after")),
    ],
)  # fmt: skip
async def test_a_refused_handshake_raises_what_the_server_meant(status, body, headers, expected):
    def refuse(request: Request) -> Response:
        return Response(status.value, status.phrase, server_headers(headers, len(body)), body)

    async with Server(refuse=refuse) as server:
        with pytest.raises(ServerError) as caught:
            async with NativeClient(server.url):
                pass
    error = caught.value.error
    assert (error.code, error.name, error.retry) == expected


async def test_no_server_and_a_strange_server_raise_connection_lost():
    with pytest.raises(ConnectionLost):
        async with NativeClient("ws://127.0.0.1:1/ws/asr"):
            pass

    async def strange(peer: Peer) -> None:
        await peer.socket.send("hello")

    async def early(peer: Peer) -> None:
        await peer.say(Ack(1))

    async with Server(strange, early) as server:
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                async with NativeClient(server.url):
                    pass


async def test_a_message_that_is_not_of_the_protocol_ends_the_session():
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.hear()
        await peer.socket.send("{}")
        await peer.socket.wait_closed()

    async with Server(script) as server, NativeClient(server.url) as client:
        with pytest.raises(ConnectionLost, match="protocol"):
            await read_all(client)


async def test_audio_waits_for_acks_at_the_bound():
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.hear_all(2)
        await asked.wait()
        await peer.say(Ack(0))
        assert (await peer.hear()).sequence == 1
        await peer.say(Closed("end", 0))

    async with Server(script) as server, NativeClient(server.url, max_unacked_bytes=1) as client:
        await client.send(b"first")
        second = asyncio.ensure_future(client.send(b"second"))
        await asyncio.sleep(0)
        assert not second.done()
        asked.set()
        await second
        messages = await read_all(client)
    assert [type(message) for message in messages] == [AckMessage, ClosedMessage]


async def test_the_client_can_break_its_own_connection_and_go_on():
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear_all(2)
        await peer.say(Ack(0))
        await peer.socket.wait_closed()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.say(Resumed(SESSION, 1, 0))
        assert await peer.hear() == {"type": "end"}
        await peer.say(Closed("end", 0))

    async with Server(first, second) as server, NativeClient(server.url) as client:
        await client.send(b"a")
        async for message in client:
            if isinstance(message, AckMessage):
                break
        client.drop_connection()
        await client.end()
        assert isinstance((await read_all(client))[-1], ClosedMessage)


async def test_leaving_early_closes_the_connection():
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.socket.wait_closed()
        closed.set()

    async with Server(script) as server:
        async with NativeClient(server.url):
            pass
        await closed.wait()
