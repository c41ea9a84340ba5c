"""What every route has in common: the method is checked, and each failure is answered with OpenAI's body."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from streamscribe.core.errors import InternalError, MethodNotAllowed, StreamScribeError
from streamscribe.gateway.refusal import error_response
from streamscribe.observe.logs import get_logger

_log = get_logger(__name__)

LINGER_S = 5.0
LINGER_BYTES = 64 * 2**20

Handler = Callable[[Request, Send], Awaitable[Response | None]]
"""Returns the answer, or None where it has sent it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route (ASGI) for one `method`, or several with commas between; without one every one is handled."""

    method: str | None
    handler: Handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        exchange = _Exchange(receive, send)
        request = Request(scope, exchange.receive)
        try:
            if self.method and request.method not in self.method.split(", "):
                raise MethodNotAllowed
            response = await self.handler(request, exchange.send)
        except ClientDisconnect:
            return
        except StreamScribeError as error:
            if isinstance(error, InternalError):
                _log.error("request failed", exc_info=error)
            await exchange.refuse(_failure(error, self.method))
        except Exception as error:  # noqa: BLE001 - the request's edge: the client must get an answer of our form
            _log.error("request failed", exc_info=error)
            await exchange.refuse(_failure(InternalError(), self.method))
        else:
            if response is not None:
                await response(scope, exchange.receive, exchange.send)


def json_response(body: bytes) -> Response:
    """An answer in JSON."""
    return Response(body, media_type="application/json")


def _failure(error: StreamScribeError, allowed: str | None) -> Response:
    return error_response(error, {"allow": allowed} if isinstance(error, MethodNotAllowed) and allowed else None)


class _Exchange:
    """The two directions of one request, and how far each has come."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._received = False
        self._answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._received = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        self._answered = True
        await self._send(message)

    async def refuse(self, response: Response) -> None:
        """Answers, unless an answer has begun; the answer ends when the client has sent all or enough of its body.

        A connection that is closed while the client still sends is reset, and the answer may be lost with it.
        """
        if self._answered:
            return
        await self.send(
            {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await self.send({"type": "http.response.body", "body": response.body, "more_body": True})
        discarded = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self._received and discarded < LINGER_BYTES:
                    discarded += len((await self.receive()).get("body", b""))
        await self.send({"type": "http.response.body", "body": b""})
