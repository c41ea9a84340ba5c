"""Decodes audio files to 16 kHz s16le, each in a child process of its own, so that a hostile file harms only itself.

Files are streamed: neither process ever holds more than a few seconds of audio. Children that wait for work have
their imports done; each serves one file.
"""

import asyncio
import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from streamscribe.audio.child import Child
from streamscribe.audio.decode_protocol import HEADER, INFO, MAX_PAYLOAD_BYTES, SAMPLE_BYTES, DecodeLimits, Job, Tag
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import (
    AudioTooLong,
    BadAudio,
    InternalError,
    Overloaded,
    StreamScribeError,
    TooLarge,
    UnsupportedFormat,
)

__all__ = ["DecodeLimits", "DecoderPool", "Decoding", "decode"]

_NO_PROCESS_RETRY_S = 5.0
_NO_ROOM = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Of processes, memory or open files: what passes when others end."""
_COMMAND = (sys.executable, "-P", "-m", "streamscribe.audio.decode_child")
_INHERITED = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL")
_ERRORS: dict[str, type[StreamScribeError]] = {
    error.code: error for error in (AudioTooLong, BadAudio, TooLarge, UnsupportedFormat)
}


class DecoderPool:
    """At most `max_children` decodes at once and one idle child.

    Raises Overloaded after `wait_s` without a place, and where the system has no room for a process; InternalError
    where none can be started for any other reason.
    """

    def __init__(self, limits: DecodeLimits, *, max_children: int = 16, wait_s: float = 10, spare: bool = True) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(max_children)
        self._wait_s = wait_s
        self._keeps_spare = spare
        self._spare: Child | None = None
        self._starting = False
        self._running: set[Child] = set()

    async def start(self) -> None:
        """Has a child ready for the first file; not needed, only faster."""
        if not self._keeps_spare or self._spare is not None or self._starting:
            return
        self._starting = True
        try:
            child = await _spawn()
        finally:
            self._starting = False
        if self._keeps_spare:
            self._spare = child
        else:  # closed meanwhile
            await child.end(finished=False)

    def decode(self, path: Path, *, channels: int | None = 1) -> "Decoding":
        """Decodes a file; `channels` 1 mixes down, None keeps two channels interleaved."""
        return Decoding(self, Job(os.fspath(path), self._limits, channels))

    async def take(self, job: Job) -> Child:
        """A child at work on `job`; give it back with `release`."""
        try:
            async with asyncio.timeout(self._wait_s):  # `wait_for` loses cancellations before Python 3.12
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded("too many files are being decoded", retry_after_s=self._wait_s) from None
        child = None
        try:
            spare, self._spare = self._spare, None
            child = spare if spare is not None and spare.alive else await _spawn()
            self._running.add(child)
            child.give(job.to_line())
            with suppress(Overloaded, InternalError):  # this file has its child; the next one tells
                await self.start()
        except BaseException:
            self._places.release()
            if child is not None:
                self._running.discard(child)
                await child.end(finished=False)
            raise
        return child

    async def release(self, child: Child, *, finished: bool) -> None:
        """Ends a child and makes its place free; one that has `finished` may leave by itself."""
        self._running.discard(child)
        self._places.release()
        await child.end(finished=finished)

    async def close(self) -> None:
        """Ends every child; decodes that still run fail."""
        self._keeps_spare = False
        children = [*self._running, *([self._spare] if self._spare else [])]
        self._spare = None
        for child in children:
            await child.end(finished=False)


class Decoding:
    """Iterates over s16le blocks of about one second at 16 kHz, `channels` interleaved.

    Raises BadAudio, UnsupportedFormat, AudioTooLong, TooLarge, Overloaded. The child ends with the iteration, with an
    error or cancellation, and at the end of `async with`; whoever leaves the iteration early calls `aclose`.
    """

    def __init__(self, pool: DecoderPool, job: Job) -> None:
        self._pool = pool
        self._job = job
        self._child: Child | None = None
        self._closed = False
        self._finished = False
        self.channels = 1
        self.duration_s = 0.0
        """What the file says of itself, known from the first block on, 0 if it does not; an estimate for mp3."""
        self.decoded_s = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise StopAsyncIteration
        try:
            block = await self._next_block()
        except BaseException:
            await self.aclose()
            raise
        if block is None:
            await self.aclose()
            raise StopAsyncIteration
        self.decoded_s += len(block) / (SAMPLE_RATE * SAMPLE_BYTES * self.channels)
        return block

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the child; may be called at any time and again."""
        self._closed = True
        child, self._child = self._child, None
        if child is not None:
            await self._pool.release(child, finished=self._finished)

    async def _next_block(self) -> bytes | None:
        if self._child is None:
            self._child = await self._pool.take(self._job)
        while True:
            tag, payload = await self._frame(self._child)
            if tag is Tag.DATA:
                return payload
            if tag is Tag.INFO:
                self.channels, self.duration_s = INFO.unpack(payload)
                continue
            self._finished = True
            if tag is Tag.ERROR:
                code, _, message = payload.decode(errors="replace").partition("\n")
                raise _ERRORS.get(code, InternalError)(message)
            return None

    async def _frame(self, child: Child) -> tuple[Tag, bytes]:
        try:
            async with asyncio.timeout(self._job.limits.stall_s):
                tag, size = HEADER.unpack(await child.stdout.readexactly(HEADER.size))
                if size > MAX_PAYLOAD_BYTES:
                    raise BadAudio("the decoder broke on this file")
                payload = await child.stdout.readexactly(size)
                if tag == Tag.INFO.value and size != INFO.size:
                    raise BadAudio("the decoder broke on this file")
                return Tag(tag), payload
        except TimeoutError:
            raise BadAudio("decoding the file stalled") from None
        except (asyncio.IncompleteReadError, ValueError):
            self._finished = True
            raise BadAudio("the decoder broke on this file, or it needed more time than is allowed") from None


def decode(path: Path, limits: DecodeLimits, *, channels: int | None = 1) -> Decoding:
    """Decodes one file with a child started for it; whoever decodes many keeps a DecoderPool."""
    return DecoderPool(limits, max_children=1, spare=False).decode(path, channels=channels)


async def _spawn() -> Child:
    """A child without the server's secrets. Raises Overloaded where the system has no room for one; else InternalError,
    for waiting would not help."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        return await Child.start(_COMMAND, environment | {"OPENBLAS_NUM_THREADS": "1"})
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise Overloaded("no decoder can be started now", retry_after_s=_NO_PROCESS_RETRY_S) from error
        raise InternalError from error
