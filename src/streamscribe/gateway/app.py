"""The applications of the two ports: routes, the page, health, and authentication before all of them."""

import os
from collections.abc import Sequence
from typing import Protocol, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamscribe import __version__
from streamscribe.core.errors import InternalError, MethodNotAllowed, NotFound
from streamscribe.gateway.auth import METRICS_PATH, Authenticator, AuthMiddleware, Doorkeeper, NobodyElse
from streamscribe.gateway.endpoint import FunasrEndpoint, WebSocketEndpoint
from streamscribe.gateway.funasr_connection import Decode
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.readiness import Readiness
from streamscribe.gateway.refusal import error_response
from streamscribe.gateway.rest.admin import DRAIN_PATH
from streamscribe.settings import GatewaySettings, LimitSettings

ASSET_KINDS = (".html", ".js", ".css", ".svg", ".png", ".woff2")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "media-src 'self' blob:; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = [
    (b"content-security-policy", PAGE_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"microphone=(self), camera=(), geolocation=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


class Exposition(Protocol):
    """Who renders the metrics."""

    async def exposition(self) -> tuple[bytes, str]:
        """The text and its content type."""
        ...


def create_app(
    hub: Hub,
    auth: Authenticator,
    *,
    gateway: GatewaySettings,
    limits: LimitSettings,
    metrics: Exposition,
    readiness: Readiness,
    decode: Decode,
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """The main port: the native WebSocket on `/ws/asr`, FunASR's and the page on `/`, health, metrics, `routes`."""
    return Starlette(
        routes=[
            WebSocketRoute("/ws/asr", WebSocketEndpoint(hub, limits)),
            WebSocketRoute("/", FunasrEndpoint(hub, limits, gateway, decode)),
            *_health(readiness),
            Route(METRICS_PATH, _Metrics(metrics)),
            *routes,
            Route("/", _SafeHeaders(_Page())),
            Mount("/assets", _SafeHeaders(_Assets())),
        ],
        middleware=[Middleware(AuthMiddleware, authenticator=auth)],
        exception_handlers={HTTPException: _http_error, Exception: _defect},
    )


def create_funasr_app(
    hub: Hub,
    auth: Authenticator,
    *,
    gateway: GatewaySettings,
    limits: LimitSettings,
    readiness: Readiness,
    decode: Decode,
) -> Starlette:
    """The FunASR port: its WebSocket on every path, as its clients use several; and health."""
    return Starlette(
        routes=[*_health(readiness), WebSocketRoute("/{path:path}", FunasrEndpoint(hub, limits, gateway, decode))],
        middleware=[Middleware(AuthMiddleware, authenticator=auth)],
        exception_handlers={HTTPException: _http_error, Exception: _defect},
    )


class Waiting(Protocol):
    """Who knows what is not ready."""

    def waiting_for(self) -> list[str]:
        """The names of what does not hold; asked at each request."""
        ...


def create_health_app(metrics: Exposition, readiness: Waiting, auth: Doorkeeper | None = None) -> Starlette:
    """The port of a process that serves no clients: health for everybody, metrics (which name tenants) for this
    machine, and for those whom `auth` knows."""
    return Starlette(
        routes=[
            *_health(readiness),
            Route(METRICS_PATH, _Metrics(metrics)),
            Route(DRAIN_PATH, _no_drain, methods=["GET", "POST"]),
        ],
        middleware=[Middleware(AuthMiddleware, authenticator=auth or NobodyElse())],
        exception_handlers={HTTPException: _http_error, Exception: _defect},
    )


def _health(readiness: Waiting) -> list[Route]:
    async def alive(request: Request) -> Response:
        return JSONResponse({"status": "alive"}, headers={"cache-control": "no-store"})

    async def ready(request: Request) -> Response:
        waiting_for = readiness.waiting_for()
        return JSONResponse(
            {"status": "not_ready" if waiting_for else "ready", "waiting_for": waiting_for},
            status_code=503 if waiting_for else 200,
            headers={"cache-control": "no-store"},
        )

    async def version(request: Request) -> Response:
        return JSONResponse({"version": __version__})

    return [Route("/healthz", alive), Route("/readyz", ready), Route("/version", version)]


class _Metrics:
    """The route of the exposition."""

    def __init__(self, metrics: Exposition) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        text, content_type = await self._metrics.exposition()
        await Response(text, headers={"content-type": content_type})(scope, receive, send)


async def _no_drain(request: Request) -> Response:
    """For who asks a process without clients what only gateways do."""
    return error_response(NotFound("only a gateway is drained so; SIGTERM drains this process"))


async def _http_error(request: Request, error: Exception) -> Response:
    """What the router refuses, in our form."""
    refused = cast(HTTPException, error)
    return error_response(MethodNotAllowed() if refused.status_code == 405 else NotFound(), refused.headers)


async def _defect(request: Request, error: Exception) -> Response:
    """What no route caught; the listener logs it."""
    return error_response(InternalError())


class _Assets(StaticFiles):
    """The files of `streamscribe.web` that a page is made of."""

    def __init__(self) -> None:
        super().__init__(packages=[("streamscribe.web", ".")])

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Finds a file of the kinds that are served."""
        return super().lookup_path(path) if path.endswith(ASSET_KINDS) else ("", None)


class _Page(_Assets):
    """The page, whatever the path."""

    def get_path(self, scope: Scope) -> str:
        """Its file."""
        return "index.html"


class _SafeHeaders:
    """Adds the headers of the page: its own scripts only, no framing, no guessing of types, always revalidated."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SAFE_HEADERS]
            await send(message)

        await self._app(scope, receive, send_safely)
