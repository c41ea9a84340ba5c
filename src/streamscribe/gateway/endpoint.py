"""The ASGI callables of the WebSocket routes: who may connect, with which protocol, to which session."""

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from streamscribe.core.errors import BadRequest, Draining, StreamScribeError
from streamscribe.core.ids import ID_RULE, SessionId
from streamscribe.core.options import SessionOptions
from streamscribe.gateway.connection import Connection, Transport
from streamscribe.gateway.hub import DRAINING_RETRY_S, Hub
from streamscribe.gateway.refusal import refuse
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings
from streamscribe.wire.dialect import Dialect

SUBPROTOCOLS = ("streamscribe", "binary")
"""Selected where offered, in this order; a client that offers none or others gets none."""

TRANSPORT = "streamscribe.transport"
"""The listener's extension of the ASGI scope: a `gateway.connection.Transport`."""

ReadOptions = Callable[[Mapping[str, str]], SessionOptions]
MakeDialect = Callable[[SessionOptions], Dialect]


class WebSocketEndpoint:
    """Accepts WebSockets of one protocol, after authentication.

    While draining only sessions that are here already may be resumed; all else is refused before it is accepted. What
    is wrong with the address is told in the protocol's own words, as a browser cannot read a refused handshake.
    """

    def __init__(
        self, hub: Hub, limits: LimitSettings, *, options: ReadOptions, dialect: MakeDialect, resumable: bool
    ) -> None:
        self._hub = hub
        self._limits = limits
        self._options = options
        self._dialect = dialect
        self._resumable = resumable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one WebSocket (ASGI)."""
        tenant: Tenant = scope["state"]["tenant"]
        params = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        wanted = params.get("session_id", "") if self._resumable else ""
        if self._hub.draining and not self._hub.is_known(tenant, wanted):
            await refuse(scope, receive, send, Draining(retry_after_s=DRAINING_RETRY_S))
            return
        await receive()
        await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope)})
        error: StreamScribeError | None = None
        session_id, options = None, SessionOptions()
        try:
            session_id = _session_id(wanted)
            options = self._options(params)
        except StreamScribeError as caught:
            error = caught
        connection = Connection(
            self._hub,
            tenant,
            self._dialect(options),
            options,
            self._limits,
            receive=receive,
            send=send,
            transport=_transport(scope),
            resumable=self._resumable,
        )
        if error is not None:
            connection.refuse(error)
        await connection.serve(session_id)


def _session_id(wanted: str) -> SessionId | None:
    if not wanted:
        return None
    try:
        return SessionId(wanted)
    except ValueError:
        raise BadRequest(f"session_id must be {ID_RULE}", field="session_id") from None


def _subprotocol(scope: Scope) -> str | None:
    offered = scope.get("subprotocols", ())
    return next((name for name in SUBPROTOCOLS if name in offered), None)


def _transport(scope: Scope) -> Transport:
    transport: Transport = scope["extensions"][TRANSPORT]
    return transport
