"""Who asks: keys to tenants, deny by default, and no use of an open server by a foreign web page."""

import ipaddress
from dataclasses import replace
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from streamscribe.core.errors import Forbidden, StreamScribeError, Unauthenticated
from streamscribe.core.ids import TenantId
from streamscribe.gateway.refusal import refuse
from streamscribe.ports import Tenant, TenantStore
from streamscribe.settings import GatewaySettings, Settings, SettingsError

DEFAULT_TENANT = TenantId("default")
KEY_SUBPROTOCOL = "streamscribe.key."
"""A browser cannot set headers on a WebSocket: it offers `streamscribe` and this with its key behind."""

PUBLIC_PATHS = frozenset({"/", "/healthz", "/readyz", "/version"})
PUBLIC_PREFIX = "/assets/"
METRICS_PATH = "/metrics"
ADMIN_PREFIX = "/admin/"
"""What operators ask. Their keys do more than others', and addresses are written down on the way: no key is taken from
one here."""


def is_loopback(host: str) -> bool:
    """Whether an address or name is of this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(settings: Settings) -> None:
    """Raises SettingsError where the gateway would serve strangers without keys and nobody said that it may."""
    gateway = settings.gateway
    if gateway.tenants_file is None and not gateway.no_auth and not is_loopback(gateway.host):
        raise SettingsError(
            f"gateway.host is {gateway.host}, not loopback: name a file of keys by gateway.tenants_file (--tenants; "
            "streamscribe keys new makes one), or serve without keys by gateway.no_auth (--no-auth)"
        )
    if gateway.tenants_file is not None and gateway.no_auth:
        raise SettingsError("gateway.no_auth and gateway.tenants_file exclude each other")


class Authenticator:
    """Tells the tenant of a request. Without a store all are the tenant `default`, and web pages must be our own.

    Operator is then who asks from this machine, with no proxy between.
    """

    def __init__(self, store: TenantStore | None, gateway: GatewaySettings, *, max_sessions: int) -> None:
        self._store = store
        self._default = Tenant(DEFAULT_TENANT, max_sessions)
        self._operator = replace(self._default, operator=True)
        self._loopback_only = not gateway.no_auth and is_loopback(gateway.host)

    def request(self, scope: Scope) -> Tenant:
        """The tenant of an HTTP or WebSocket request, of its ASGI scope.

        Raises Unauthenticated for no valid key, and Forbidden for a `tenant_id` that is not the key's or, without
        keys, for a page of another origin.
        """
        if self._store is None:
            self._check_origin(scope)
            return self._operator if _is_local(scope) else self._default
        key = _key(scope)
        tenant = self._store.authenticate(key) if key else None
        if tenant is None:
            raise Unauthenticated
        wanted = _parameter(scope, "tenant_id")
        if wanted and wanted != tenant.tenant_id:
            raise Forbidden("tenant_id is not that of the key", field="tenant_id")
        return tenant

    def _check_origin(self, scope: Scope) -> None:
        """Pages may come from the host that they talk to, whatever the port.

        On loopback that host must be loopback by name too, or a page of a name that resolves to 127.0.0.1 would pass.
        """
        origin = _header(scope, b"origin")
        if not origin:
            return
        page, here = _host_name(origin), _host_name("//" + _header(scope, b"host"))
        if not page or page != here or (self._loopback_only and not is_loopback(page)):
            raise Forbidden("pages of this origin may not use the server")


class Doorkeeper(Protocol):
    """Who knows whose request it is."""

    def request(self, scope: Scope) -> Tenant:
        """The tenant of an HTTP or WebSocket request. Raises Unauthenticated or Forbidden."""
        ...


class NobodyElse:
    """Knows nobody: what is not public is for this machine only."""

    def request(self, scope: Scope) -> Tenant:
        """Some tenant, for who asks from this machine with no proxy between.

        Raises Forbidden for others, and says how they could be let in.
        """
        if _is_local(scope):
            return Tenant(DEFAULT_TENANT, max_sessions=0)
        raise Forbidden("this is told on this machine only; with gateway.tenants_file a key opens it for others")


class AuthMiddleware:
    """Deny by default: what is not listed as public needs a tenant, which lies in `request.state.tenant`.

    Public are the page, its assets, `/healthz`, `/readyz` and `/version`. `/metrics` needs a key unless the peer is
    on this machine and no proxy stands between.
    """

    def __init__(self, app: ASGIApp, authenticator: Doorkeeper) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the request through or answers it."""
        if scope["type"] not in ("http", "websocket") or _is_public(scope):
            await self._app(scope, receive, send)
            return
        try:
            tenant = self._authenticator.request(scope)
        except StreamScribeError as error:
            await refuse(scope, receive, send, error)
            return
        scope.setdefault("state", {})["tenant"] = tenant
        await self._app(scope, receive, send)


def _is_public(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    path = scope["path"]
    if path == METRICS_PATH:
        return _is_local(scope)
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIX)


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    proxied = _header(scope, b"x-forwarded-for") or _header(scope, b"forwarded")
    return client is not None and is_loopback(client[0]) and not proxied


def _key(scope: Scope) -> str:
    """The key of a request: `Authorization: Bearer KEY` (FunASR clients write `Bearer; KEY`), subprotocol or query.

    Raises Unauthenticated for one in the query of what operators ask.
    """
    scheme, _, key = _header(scope, b"authorization").partition(" ")
    if scheme.rstrip(";").lower() == "bearer" and key.strip():
        return key.strip()
    subprotocols: list[str] = scope.get("subprotocols", [])
    for offered in subprotocols:
        if offered.startswith(KEY_SUBPROTOCOL):
            return offered[len(KEY_SUBPROTOCOL) :]
    token = _parameter(scope, "token")
    if token and scope["path"].startswith(ADMIN_PREFIX):
        raise Unauthenticated("an operator's key is taken from the header only: Authorization: Bearer KEY")
    return token


def _parameter(scope: Scope, name: str) -> str:
    query: bytes = scope["query_string"]
    return dict(parse_qsl(query.decode("latin-1"))).get(name, "")


def _header(scope: Scope, name: bytes) -> str:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    found: bytes = next((value for header, value in headers if header == name), b"")
    return found.decode("latin-1")


def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
