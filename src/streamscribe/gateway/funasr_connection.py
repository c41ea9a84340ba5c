"""A FunASR connection: utterance after utterance, and files that are decoded when they are whole."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.types import Message

from streamscribe.audio.decode import Decoding
from streamscribe.core.errors import InternalError, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.messages import Audio, ClientMessage, Closed, End, Invalid, ServerMessage
from streamscribe.gateway.connection import Connection
from streamscribe.gateway.spool import Spool
from streamscribe.observe.logs import get_logger
from streamscribe.wire.dialects.funasr import FunasrDialect

_log = get_logger(__name__)

Decode = Callable[[Path], Decoding]


class FunasrConnection(Connection):
    """Does for `FunasrDialect` what its docstring asks of a connection.

    Nothing is decoded between an utterance's end and its last message. A container file is spooled within
    `max_upload_bytes` and `max_files`, decoded by `decode` at its end, and goes into the session at the session's pace.
    """

    __slots__ = ("_decode", "_funasr", "_spool", "_utterance_over")

    def __init__(self, *args: Any, dialect: FunasrDialect, decode: Decode, **kwargs: Any) -> None:
        super().__init__(*args, dialect=dialect, **kwargs)
        self._funasr = dialect
        self._decode = decode
        self._spool: Spool | None = None
        self._utterance_over: asyncio.Future[None] | None = None

    async def serve(self, session_id: SessionId | None) -> None:
        """Serves an accepted WebSocket until it is closed."""
        try:
            await super().serve(session_id)
        finally:
            if self._spool is not None:
                self._drop(self._spool)

    def close(self, error: StreamScribeError | None) -> None:
        """The session is done with this connection (Sink)."""
        super().close(error)
        if self._closing:
            self._end_utterance()

    async def _hear(self, event: Message) -> None:
        if self._funasr.finalizing:
            self._utterance_over = asyncio.get_running_loop().create_future()
            await self._utterance_over
        if not self._closing:
            await super()._hear(event)

    async def _take(self, message: ClientMessage) -> None:
        if isinstance(message, Audio) and self._funasr.container is not None:
            await self._spool_audio(message.data)
        elif isinstance(message, End) and self._spool is not None:
            spool, self._spool = self._spool, None
            self._own(self._feed(spool))
        else:
            await super()._take(message)

    async def _spool_audio(self, data: bytes) -> None:
        """The session begins with its file, and lives while the file comes in."""
        try:
            if self._spool is None:
                self._spool = self._new_spool()
            await self._spool.write(data)
            await super()._take(Audio(b""))  # which is not paced, as a ping would be
        except StreamScribeError as error:
            await super()._take(Invalid(error))

    async def _feed(self, spool: Spool) -> None:
        live = self._live
        try:
            async with self._decode(await spool.finish()) as decoding:
                async for block in decoding:
                    if live is None or live.over:
                        return
                    await live.receive(Audio(block))
            if live is not None:
                await live.receive(End())
        except StreamScribeError as error:
            if isinstance(error, InternalError):
                _log.error("a file could not be decoded", exc_info=error)
            if live is not None:
                await live.receive(Invalid(error))
        finally:
            self._drop(spool)

    def _new_spool(self) -> Spool:
        """A file in its place; `_drop` gives both back."""
        self._hub.files.take(self._tenant.tenant_id)
        try:
            return Spool(int(self._limits.max_upload_bytes))
        except BaseException:
            self._hub.files.release(self._tenant.tenant_id)
            raise

    def _drop(self, spool: Spool) -> None:
        spool.close()
        self._hub.files.release(self._tenant.tenant_id)

    async def _write(self) -> None:
        try:
            await super()._write()
        finally:  # without a writer the last message is never encoded, and nobody would end the wait for it
            self._end_utterance()

    def _encode(self, message: ServerMessage) -> list[str]:
        texts = super()._encode(message)
        if isinstance(message, Closed):
            self._end_utterance()
        return texts

    def _end_utterance(self) -> None:
        if self._utterance_over is not None and not self._utterance_over.done():
            self._utterance_over.set_result(None)
