"""The routes under `/v1`. Every answer that is an error has OpenAI's body, whatever went wrong."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Send

from streamscribe.audio.decode import DecoderPool
from streamscribe.core.errors import BadRequest, ModelNotFound, NotFound, Timeout
from streamscribe.core.options import Task
from streamscribe.gateway.awake import Deadline, before
from streamscribe.gateway.door import going_down
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.recognition import Finals, recognition, stop
from streamscribe.gateway.rest.answer import EventStream, whole
from streamscribe.gateway.rest.endpoint import Endpoint, Handler, json_response
from streamscribe.gateway.rest.upload import receive_upload
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings
from streamscribe.wire import rest
from streamscribe.wire.rest_request import read_request

OPENAI_DEFAULT = "whisper-1"
"""What OpenAI's clients call a model unless they are told another name."""


def routes(hub: Hub, decoders: DecoderPool, *, limits: LimitSettings, model: str) -> list[BaseRoute]:
    """The routes; requests may name `model`, or OpenAI's default. They need `request.state.tenant`."""
    models = (OPENAI_DEFAULT, model)
    audio = _Audio(hub, decoders, limits, models)
    return [
        Route("/v1/audio/transcriptions", Endpoint("POST", audio.handler(Task.TRANSCRIBE))),
        Route("/v1/audio/translations", Endpoint("POST", audio.handler(Task.TRANSLATE))),
        Route("/v1/models", Endpoint("GET", _list_models(models))),
        Route("/v1/models/{id:path}", Endpoint("GET", _show_model(models))),
        Route("/v1/{path:path}", Endpoint(None, _nothing)),
    ]


def _list_models(models: Sequence[str]) -> Handler:
    async def show(request: Request, send: Send) -> Response:
        return json_response(rest.encode(rest.models(models)))

    return show


def _show_model(models: Sequence[str]) -> Handler:
    async def show(request: Request, send: Send) -> Response:
        if request.path_params["id"] not in models:
            raise ModelNotFound(field="model")
        return json_response(rest.encode(rest.Model(request.path_params["id"])))

    return show


async def _nothing(request: Request, send: Send) -> Response:
    raise NotFound


@asynccontextmanager
async def _while_there(request: Request, finals: Finals) -> AsyncIterator[None]:
    """Ends the finals with ClientDisconnect when the client leaves; the body must have been read."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        finals.fail(ClientDisconnect())

    watching = asyncio.create_task(watch(), name="rest-watch")
    try:
        yield
    finally:
        await stop(watching)


class _Audio:
    """Transcriptions and translations."""

    def __init__(self, hub: Hub, decoders: DecoderPool, limits: LimitSettings, models: Sequence[str]) -> None:
        self._hub = hub
        self._decoders = decoders
        self._limits = limits
        self._models = models

    def handler(self, task: Task) -> Handler:
        """The endpoint of one task."""

        async def handle(request: Request, send: Send) -> Response | None:
            if self._hub.draining:
                raise going_down()
            tenant: Tenant = request.state.tenant
            self._hub.files.take(tenant.tenant_id)
            try:
                return await self._handle(request, send, task)
            finally:
                self._hub.files.release(tenant.tenant_id)

        return handle

    async def _handle(self, request: Request, send: Send, task: Task) -> Response | None:
        length = request.headers.get("content-length", "")
        async with receive_upload(
            self._body(request),
            content_type=request.headers.get("content-type", ""),
            content_length=int(length) if length.isdigit() else None,
            max_file_bytes=int(self._limits.max_upload_bytes),
        ) as upload:
            header = ",".join(request.headers.getlist("cache-control"))
            wanted = read_request(upload.fields, task, self._models, cache_control=header)
            if not upload.has_file:
                raise BadRequest("a file is needed", field="file")
            decoding = self._decoders.decode(upload.path)
            unread_chars = int(self._limits.max_unread_bytes)
            async with (
                recognition(
                    self._hub, request.state.tenant, wanted.options, decoding, max_unread_chars=unread_chars
                ) as finals,
                _while_there(request, finals),
            ):
                if wanted.stream:
                    stream = EventStream(
                        send, progress=wanted.progress, slow_reader_timeout_s=self._limits.slow_reader_timeout_s
                    )
                    await stream.write(finals, decoding)
                    return None
                return await whole(finals, wanted, decoding)

    async def _body(self, request: Request) -> AsyncIterator[bytes]:
        """The body, piece by piece; a client that stalls or dribbles for too long is given up."""
        pieces = request.stream()
        whole_body = Deadline(self._limits.upload_timeout_s)
        while True:
            try:
                async with before(whole_body, Deadline(self._limits.idle_timeout_s)):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Timeout("the upload stalled or took too long") from None
            if piece is None:
                return
            yield piece
