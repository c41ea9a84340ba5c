"""What a native client does when its connection breaks: nothing is lost, no final comes twice."""

import pytest
from websockets.http11 import Request, Response

from streamscribe.client.errors import ConnectionLost, ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core.errors import (
    BadRequest,
    LeaseLost,
    Overloaded,
    SequenceGap,
    SessionNotFound,
    StreamScribeError,
)
from streamscribe.core.messages import (
    Ack,
    Closed,
    ErrorSent,
    FlushDone,
    GoAway,
    Resumed,
)
from streamscribe.wire.native_server import (
    ClosedMessage,
    ErrorMessage,
    GoAwayMessage,
    ResultMessage,
    ResumedMessage,
)
from tests.client.scripted_server import SESSION, Peer, Server, read_all, server_headers


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


@pytest.mark.parametrize("error", [BadRequest("flush after the end is ignored"), Overloaded()])
async def test_an_error_before_a_break_is_not_its_cause(error: StreamScribeError) -> None:
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear_all(3)
        await peer.say(ErrorSent(error))
        assert await peer.hear() == {"type": "ping"}
        peer.vanish()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.say(Resumed(SESSION, 1, 0), Closed("end", 0))

    async with Server(first, second) as server, NativeClient(server.url) as client:
        await client.send(b"a")
        await client.end()
        said = []
        async for message in client:
            said.append(message)
            if isinstance(message, ErrorMessage):
                await client.ping()
    assert [type(message) for message in said] == [ErrorMessage, ResumedMessage, ClosedMessage]


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


@pytest.mark.parametrize("error", [SequenceGap(), LeaseLost()])
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
