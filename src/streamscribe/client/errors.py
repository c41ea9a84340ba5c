"""How a session at a server can end badly, seen from the client."""

import msgspec
from msgspec import UNSET
from websockets.exceptions import InvalidStatus

from streamscribe.wire.native_server import ErrorMessage


class ServerError(Exception):
    """The server refused the session or ended it, and said why; branch on `error.name` and `error.retry`.

    `url` is that server's, where a NativeClient heard it.
    """

    def __init__(self, error: ErrorMessage, url: str = "") -> None:
        self.error = error
        self.url = url
        super().__init__(f"{error.name}: {error.message}")


class SessionEnded(ServerError):
    """The server ended a session that had begun."""


class ConnectionLost(Exception):
    """The connection broke, and the session could not be resumed in time; `close_code`: the server's, if any."""

    def __init__(self, message: str, close_code: int | None = None) -> None:
        self.close_code = close_code
        super().__init__(message)


class NotResumed(ConnectionLost):
    """A session that had begun could not go on: no server had it again in time."""


class _Refusal(msgspec.Struct):
    code: str | None = None
    message: str = "the server refused the connection"


class _RefusalBody(msgspec.Struct):
    error: _Refusal


def refusal(refused: InvalidStatus) -> ServerError:
    """What a server that answered the handshake by an HTTP status meant."""
    status = refused.response.status_code
    try:
        told = msgspec.json.decode(refused.response.body or b"", type=_RefusalBody).error
    except msgspec.DecodeError:
        told = _Refusal()
    wait_s = refused.response.headers.get("Retry-After", "")
    again = wait_s.isdigit() or status >= 500
    return ServerError(
        ErrorMessage(
            code=status,
            name=told.code or f"http_{status}",
            message=told.message,
            retry="after" if again else "never",
            retry_after_ms=int(wait_s) * 1000 if wait_s.isdigit() else UNSET,
        )
    )
