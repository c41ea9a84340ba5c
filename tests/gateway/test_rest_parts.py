"""The parts of the REST routes that no well-behaved client reaches."""

from dataclasses import replace

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Send
from structlog.testing import capture_logs

from streamscribe.core.errors import Draining, InternalError, SlowReader
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.messages import Heartbeat, Pong, ResultSent
from streamscribe.gateway.recognition import Finals
from streamscribe.gateway.rest.endpoint import Endpoint
from tests.gateway.rest_rig import final


def sent(number: int, text: str) -> ResultSent:
    return ResultSent(SessionId("s"), TraceId("t"), final(number, text))


async def test_finals_come_in_order_and_then_the_error_or_nothing() -> None:
    finals = Finals(100)
    for message in (sent(0, "one"), Pong(), sent(1, ""), sent(2, "two")):
        finals.send(message)
    finals.close(None)
    finals.close(Draining())
    texts = [result.text for result in (await finals.next(), await finals.next()) if result]
    assert texts == ["one", "two"]
    assert await finals.next() is None


async def test_of_two_passes_only_the_last_counts() -> None:
    finals = Finals(100, last_pass=2)
    first = final(0, "one")
    finals.send(ResultSent(SessionId("s"), TraceId("t"), replace(first, pass_=1)))
    finals.send(ResultSent(SessionId("s"), TraceId("t"), replace(first, text="One.")))
    finals.close(None)
    told = await finals.next()
    assert told is not None
    assert told.text == "One."
    assert await finals.next() is None


async def test_heartbeats_and_finals_say_how_far_recognition_is() -> None:
    finals = Finals(100)
    assert finals.processed_ms == 0
    finals.send(Heartbeat(received_ms=3000, processed_ms=2000))
    assert finals.processed_ms == 2000
    finals.send(sent(2, "later"))
    assert finals.processed_ms == 2900
    finals.send(Heartbeat(received_ms=3000, processed_ms=2800))
    assert finals.processed_ms == 2900


async def test_what_is_held_for_a_reader_is_bounded() -> None:
    finals = Finals(5)
    finals.send(sent(0, "three"))
    assert await finals.next() is not None
    finals.send(sent(1, "three"))
    finals.send(sent(2, "more"))
    with pytest.raises(SlowReader):
        await finals.next()


async def ask(endpoint: Endpoint) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://here") as client:
        return await client.get("/")


async def test_an_internal_error_is_logged_where_a_request_met_it() -> None:
    async def broken(request: Request, send: Send) -> Response:
        raise InternalError("KeyError in the decoder (readers.py:9)")

    with capture_logs() as lines:
        assert (await ask(Endpoint("GET", broken))).status_code == 500
    assert [(line["event"], str(line["exc_info"])) for line in lines] == [
        ("request failed", "KeyError in the decoder (readers.py:9)")
    ]


async def test_a_defect_of_ours_is_an_answer_without_its_details() -> None:
    async def broken(request: Request, send: Send) -> Response:
        raise RuntimeError("/secret/path")

    response = await ask(Endpoint("GET", broken))
    assert response.status_code == 500
    assert response.json()["error"] == {
        "message": "internal error",
        "type": "server_error",
        "param": None,
        "code": "internal",
    }


async def test_an_error_after_the_answer_began_cannot_begin_another() -> None:
    messages: list[Message] = []

    async def late(request: Request, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise Draining

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await Endpoint(None, late)({"type": "http", "method": "GET", "headers": []}, receive, send)
    assert [message["type"] for message in messages] == ["http.response.start"]


async def test_nothing_is_said_to_a_client_that_has_left() -> None:
    async def left(request: Request, send: Send) -> None:
        raise ClientDisconnect

    async def send(message: Message) -> None:
        pytest.fail("there is nobody to send to")

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await Endpoint("GET", left)({"type": "http", "method": "GET", "headers": []}, receive, send)
