"""Writes a file's finals as the client wants them: whole, in one of five formats, or as a stream of events."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.types import Send

from streamscribe.audio.decode import Decoding
from streamscribe.core.errors import InternalError, StreamScribeError
from streamscribe.core.results import Result
from streamscribe.core.script import join
from streamscribe.gateway.awake import within
from streamscribe.gateway.recognition import Finals
from streamscribe.gateway.rest.endpoint import json_response
from streamscribe.observe.logs import get_logger
from streamscribe.text.subtitles import srt, vtt
from streamscribe.wire import rest
from streamscribe.wire.rest_request import ResponseFormat, TranscriptionRequest

_log = get_logger(__name__)

KEEP_ALIVE_S = 15.0
"""A stream that has nothing to say for so long says a comment, or proxies would cut it."""
PROGRESS_INTERVAL_S = 1.0
_COMMENT = b": keep-alive\n\n"


async def whole(finals: Finals, wanted: TranscriptionRequest, decoding: Decoding) -> Response:
    """The answer once all is recognised."""
    results: list[Result] = []
    while (final := await finals.next()) is not None:
        results.append(final)
    match wanted.format:
        case ResponseFormat.JSON:
            return json_response(rest.encode(rest.transcription(results, decoding.decoded_s)))
        case ResponseFormat.VERBOSE_JSON:
            return json_response(rest.encode(_verbose(results, wanted, decoding.decoded_s)))
        case ResponseFormat.TEXT:
            return PlainTextResponse(rest.full_text(results) + "\n")
        case ResponseFormat.SRT:
            return PlainTextResponse(srt(results))
        case ResponseFormat.VTT:
            return Response(vtt(results), media_type="text/vtt")


def _verbose(results: list[Result], wanted: TranscriptionRequest, audio_s: float) -> rest.VerboseTranscription:
    options = wanted.options
    return rest.verbose(
        results,
        audio_s,
        task=options.task,
        language=options.language,
        segments=wanted.segments,
        words=wanted.words,
    )


class EventStream:
    """An answer in server-sent events: one delta a segment, then the whole text. A late error is one too.

    With `progress` a segment is told with its times as well, and how far recognition is at least once a second.
    """

    def __init__(self, send: Send, *, progress: bool, slow_reader_timeout_s: float) -> None:
        self._send = send
        self._progress = progress
        self._patience_s = slow_reader_timeout_s

    async def write(self, finals: Finals, decoding: Decoding) -> None:
        """Writes the finals as they come. Raises ClientDisconnect where the client is gone or does not read."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            text = ""
            while (final := await self._next(finals, decoding)) is not None:
                await self._put(rest.event(rest.delta(text, final)))
                if self._progress:
                    await self._put(rest.event(rest.segment_done(final)) + _progress(finals, decoding))
                text = join(text, final.text)
            await self._put(rest.event(rest.TextDone(text, rest.usage(decoding.decoded_s))) + rest.DONE)
        except StreamScribeError as error:
            if isinstance(error, InternalError):
                _log.error("request failed", exc_info=error)
            await self._put(rest.event(rest.failure(error)))
        await self._send({"type": "http.response.body", "body": b""})

    async def _next(self, finals: Finals, decoding: Decoding) -> Result | None:
        while True:
            try:
                async with asyncio.timeout(PROGRESS_INTERVAL_S if self._progress else KEEP_ALIVE_S):
                    return await finals.next()
            except TimeoutError:
                await self._put(_progress(finals, decoding) if self._progress else _COMMENT)

    async def _put(self, data: bytes) -> None:
        try:
            async with within(self._patience_s):
                await self._send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            raise ClientDisconnect from None


def _progress(finals: Finals, decoding: Decoding) -> bytes:
    return rest.event(rest.progress(finals.processed_ms, decoding.duration_s))
