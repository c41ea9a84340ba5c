"""A native client's session from greeting to end, against a server that says what each test scripts."""

import asyncio
from contextlib import suppress
from http import HTTPStatus

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from streamscribe.client import native
from streamscribe.client.errors import ConnectionLost, ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core.errors import Overloaded, QuotaExceeded, SlowReader, Unauthenticated
from streamscribe.core.messages import (
    Ack,
    Closed,
    FlushDone,
    Resumed,
)
from streamscribe.core.options import Hotword
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import (
    AckMessage,
    ClosedMessage,
    ErrorMessage,
    ResultMessage,
)
from tests.client.scripted_server import SESSION, Peer, Server, read_all, server_headers, simple


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


async def test_what_takes_connections_and_does_not_greet_is_left_soon_without_a_goodbye(monkeypatch):
    monkeypatch.setattr(native, "GREETING_TIMEOUT_S", 0.05)

    async def stranger(peer: Peer) -> None:
        with suppress(ConnectionClosed):
            await peer.hear()
        assert peer.socket.close_code == 1006

    async with Server(stranger) as server:
        with pytest.raises(ConnectionLost, match="does not greet"):
            async with NativeClient(server.url):
                pass


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


async def overloaded(peer: Peer) -> None:
    await peer.fail(Overloaded())


async def test_a_newcomer_asks_the_next_server_where_one_refuses_for_now_is_strange_or_not_there():
    def refuse(request: Request) -> Response:
        return Response(503, "busy", server_headers("7", 4), b"busy")

    async def strange(peer: Peer) -> None:
        await peer.socket.send("hello")

    async with (
        Server(overloaded) as full,
        Server(refuse=refuse) as busy,
        Server(strange) as other,
        Server(simple) as free,
    ):
        urls = [full.url, busy.url, other.url, "ws://127.0.0.1:1/ws/asr", free.url]
        async with NativeClient(urls) as client:
            await client.end()
            assert isinstance((await read_all(client))[-1], ClosedMessage)


async def test_a_newcomer_that_no_server_lets_in_hears_what_was_said_and_asks_none_after_a_no_for_good():
    async with Server(overloaded) as full:
        with pytest.raises(ServerError, match="overloaded"):
            async with NativeClient([full.url, "ws://127.0.0.1:1/ws/asr"]):
                pass

    async def unknown(peer: Peer) -> None:
        await peer.fail(Unauthenticated())

    async with Server(unknown) as first, Server() as second:
        with pytest.raises(ServerError, match="unauthenticated"):
            async with NativeClient([first.url, second.url]):
                pass
        assert not second.requests


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
