"""The ASGI callables of the WebSocket routes: who may connect, with which protocol, to which session."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from streamscribe.core.errors import BadRequest, InternalError
from streamscribe.core.ids import ID_RULE, SessionId
from streamscribe.core.options import SessionOptions
from streamscribe.gateway.connection import Connection, Transport
from streamscribe.gateway.door import going_down
from streamscribe.gateway.funasr_connection import Decode, FunasrConnection
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.refusal import refuse
from streamscribe.observe.logs import get_logger
from streamscribe.ports import Tenant
from streamscribe.settings import GatewaySettings, LimitSettings
from streamscribe.wire.dialects.funasr import FunasrDialect
from streamscribe.wire.native import NativeDialect, native_options_from_query

_log = get_logger(__name__)

SUBPROTOCOLS = ("streamscribe", "binary")
"""Selected where offered, in this order; a client that offers none or others gets none."""

TRANSPORT = "streamscribe.transport"
"""The listener's extension of the ASGI scope: a `gateway.connection.Transport`."""


class WebSocketEndpoint:
    """Accepts WebSockets after authentication: the native protocol's; FunASR's is a subclass.

    While draining only sessions that are here already may be resumed; all else is refused before it is accepted. What
    is wrong with the address is told in the protocol's own words, as a browser cannot read a refused handshake.
    """

    def __init__(self, hub: Hub, limits: LimitSettings) -> None:
        self._hub = hub
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one WebSocket (ASGI)."""
        tenant: Tenant = scope["state"]["tenant"]
        params = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if self._hub.draining and not self._hub.is_known(tenant, params.get("session_id", "")):
            await refuse(scope, receive, send, going_down())
            return
        await receive()
        await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope)})
        session_id, options, error = None, SessionOptions(), None
        try:
            session_id, options = self._read(params)
        except BadRequest as caught:
            error = caught
        transport: Transport = scope["extensions"][TRANSPORT]
        connection = self._connection(tenant, options, receive=receive, send=send, transport=transport)
        if error is not None:
            connection.refuse(error)
        try:
            await connection.serve(session_id)
        except Exception as defect:  # noqa: BLE001  the connection's edge: a defect ends it alone, and is told
            _log.error("a connection broke", tenant_id=tenant.tenant_id, exc_info=defect)
            told = InternalError()
            transport.force_close(told.close_code, told.message)

    def _read(self, params: Mapping[str, str]) -> tuple[SessionId | None, SessionOptions]:
        return _session_id(params.get("session_id", "")), native_options_from_query(params)

    def _connection(self, tenant: Tenant, options: SessionOptions, **channel: Any) -> Connection:
        return Connection(
            self._hub, self._limits, tenant, options, dialect=NativeDialect(options), resumable=True, **channel
        )


class FunasrEndpoint(WebSocketEndpoint):
    """Accepts WebSockets of FunASR's clients, whose addresses say nothing."""

    def __init__(self, hub: Hub, limits: LimitSettings, gateway: GatewaySettings, decode: Decode) -> None:
        super().__init__(hub, limits)
        self._label = gateway.funasr_online_label
        self._decode = decode

    def _read(self, params: Mapping[str, str]) -> tuple[SessionId | None, SessionOptions]:
        return None, SessionOptions()

    def _connection(self, tenant: Tenant, options: SessionOptions, **channel: Any) -> Connection:
        dialect = FunasrDialect(self._label)
        return FunasrConnection(
            self._hub,
            self._limits,
            tenant,
            options,
            dialect=dialect,
            decode=self._decode,
            resumable=False,
            **channel,
        )


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
