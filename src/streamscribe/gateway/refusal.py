"""Answers a request that goes no further with a typed error, HTTP or WebSocket alike."""

import math

from starlette.types import Receive, Scope, Send

from streamscribe.core.errors import StreamScribeError, Unauthenticated
from streamscribe.wire import rest


async def refuse(scope: Scope, receive: Receive, send: Send, error: StreamScribeError) -> None:
    """Sends the error's HTTP status and body; a WebSocket is refused before it is accepted."""
    prefix = "http.response"
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": error.close_code, "reason": error.code})
            return
        prefix = "websocket.http.response"
    body = rest.encode(rest.failure(error))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", str(math.ceil(error.retry_after_s)).encode()))
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": f"{prefix}.start", "status": error.http_status, "headers": headers})
    await send({"type": f"{prefix}.body", "body": body})
