"""The routes under `/v1`. Every answer that is an error has OpenAI's body, whatever went wrong."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from streamscribe.audio.decode import DecoderPool
from streamscribe.core.errors import (
    InternalError,
    MethodNotAllowed,
    ModelNotFound,
    NotFound,
    Overloaded,
    Retry,
    StreamScribeError,
    Timeout,
)
from streamscribe.core.options import Task
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.rest.answer import Answer
from streamscribe.gateway.rest.upload import receive_upload
from streamscribe.observe.logs import get_logger
from streamscribe.settings import LimitSettings
from streamscribe.wire import rest
from streamscribe.wire.rest_request import read_request

_log = get_logger(__name__)

MAX_UPLOADS = 64
"""Requests whose files are on disk at once; more are refused."""
_RETRY_S = 1.0

Handler = Callable[[Request, Send], Awaitable[None]]


def routes(
    hub: Hub, decoders: DecoderPool, limits: LimitSettings, *, models: Sequence[str] = ("whisper-1", "whisper-base")
) -> list[BaseRoute]:
    """The routes; `models` are the ids that requests may name. They need `request.state.tenant`."""
    audio = _Audio(hub, decoders, limits, models)
    return [
        Route("/v1/audio/transcriptions", _Endpoint("POST", audio.handler(Task.TRANSCRIBE))),
        Route("/v1/audio/translations", _Endpoint("POST", audio.handler(Task.TRANSLATE))),
        Route("/v1/models", _Endpoint("GET", _list_models(models))),
        Route("/v1/models/{id:path}", _Endpoint("GET", _show_model(models))),
        Route("/v1/{path:path}", _Endpoint("", _nothing)),
    ]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One route (ASGI): checks the method and turns every failure into an answer."""

    method: str
    handler: Handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        started = False

        async def sending(message: dict[str, object]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            if self.method and request.method != self.method:
                raise MethodNotAllowed
            await self.handler(request, sending)
            return
        except ClientDisconnect:
            return
        except StreamScribeError as caught:
            error = caught
        except Exception as caught:  # noqa: BLE001 - the request's edge: the client must get an answer of our form
            _log.error("request failed", exc_info=caught)
            error = InternalError()
        if not started:
            await _failure(error, self.method)(scope, receive, send)


def _failure(error: StreamScribeError, allowed: str) -> Response:
    headers = {"connection": "close"} if error.http_status == 413 else {}
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = allowed
    if error.http_status in (429, 503) and error.retry is not Retry.NEVER:
        headers["retry-after"] = str(math.ceil(error.retry_after_s or _RETRY_S))
    return _json(rest.encode(rest.failure(error)), error.http_status, headers)


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


def _list_models(models: Sequence[str]) -> Handler:
    async def show(request: Request, send: Send) -> None:
        await _json(rest.encode(rest.models(models)))(request.scope, request.receive, send)

    return show


def _show_model(models: Sequence[str]) -> Handler:
    async def show(request: Request, send: Send) -> None:
        if request.path_params["id"] not in models:
            raise ModelNotFound(field="model")
        await _json(rest.encode(rest.Model(request.path_params["id"])))(request.scope, request.receive, send)

    return show


async def _nothing(request: Request, send: Send) -> None:
    raise NotFound


class _Audio:
    """Transcriptions and translations."""

    def __init__(self, hub: Hub, decoders: DecoderPool, limits: LimitSettings, models: Sequence[str]) -> None:
        self._hub = hub
        self._decoders = decoders
        self._limits = limits
        self._models = models
        self._uploads = 0

    def handler(self, task: Task) -> Handler:
        """The endpoint of one task."""

        async def handle(request: Request, send: Send) -> None:
            if self._uploads >= MAX_UPLOADS:
                raise Overloaded("too many files are being uploaded")
            self._uploads += 1
            try:
                await self._handle(request, send, task)
            finally:
                self._uploads -= 1

        return handle

    async def _handle(self, request: Request, send: Send, task: Task) -> None:
        length = request.headers.get("content-length", "")
        async with receive_upload(
            self._body(request),
            content_type=request.headers.get("content-type", ""),
            content_length=int(length) if length.isdigit() else None,
            max_file_bytes=int(self._limits.max_upload_bytes),
        ) as upload:
            wanted = read_request(upload.fields, task, self._models)
            if not upload.has_file:
                raise NoFile
            decoding = self._decoders.decode(upload.path)
            answer = Answer(wanted, decoding)
            async with asyncio.TaskGroup() as tasks:
                ...

    async def _body(self, request: Request) -> AsyncIterator[bytes]:
        """The body, piece by piece; a client that stalls for too long is given up."""
        pieces = request.stream()
        while True:
            try:
                async with asyncio.timeout(self._limits.idle_timeout_s):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Timeout("the upload stalled") from None
            if piece is None:
                return
            yield piece
