"""Answers a request that failed or goes no further with a typed error, HTTP and WebSocket alike."""

import math
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streamscribe.core.errors import Retry, StreamScribeError, Unauthenticated
from streamscribe.wire import rest

RETRY_S = 1.0
"""When to come back where the error does not say it."""


def error_response(error: StreamScribeError, headers: Mapping[str, str] | None = None) -> Response:
    """The error's HTTP status and body, and when to come back where that may help."""
    told = dict(headers or {})
    if error.http_status in (429, 503) and error.retry is not Retry.NEVER:
        told["retry-after"] = str(math.ceil(error.retry_after_s or RETRY_S))
    if isinstance(error, Unauthenticated):
        told["www-authenticate"] = "Bearer"
    return Response(rest.encode(rest.failure(error)), error.http_status, told, media_type="application/json")


async def refuse(scope: Scope, receive: Receive, send: Send, error: StreamScribeError) -> None:
    """Sends the error; a WebSocket is refused before it is accepted."""
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": error.close_code, "reason": error.code})
            return
    await error_response(error)(scope, receive, send)
