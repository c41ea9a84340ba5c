"""Runs one file through a session of the hub: decoded blocks go in as fast as they are taken, finals come out."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamscribe.audio.decode import Decoding
from streamscribe.core.errors import SlowReader, StreamScribeError
from streamscribe.core.messages import Audio, End, Heartbeat, ResultSent, ServerMessage
from streamscribe.core.options import SessionOptions
from streamscribe.core.results import Result
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Tenant


class Finals:
    """The finals of a file's last pass, in order, each once; the session's sink. At most `max_chars` wait."""

    def __init__(self, max_chars: int, last_pass: int = 1) -> None:
        self.processed_ms = 0
        """So much of the audio is recognised."""
        self._max_chars = max_chars
        self._last_pass = last_pass
        self._held: deque[Result] = deque()
        self._held_chars = 0
        self._changed = asyncio.Event()
        self._over = False
        self._error: BaseException | None = None

    def send(self, message: ServerMessage) -> None:
        """Takes a message of the session; one that is no last final with text is not for a file's reader."""
        if isinstance(message, Heartbeat):
            self.processed_ms = max(self.processed_ms, message.processed_ms)
        if not isinstance(message, ResultSent):
            return
        result = message.result
        if not result.is_final or result.pass_ < self._last_pass or not result.text:
            return
        self.processed_ms = max(self.processed_ms, result.end_ms)
        self._held.append(result)
        self._held_chars += len(result.text)
        if self._held_chars > self._max_chars:
            self.fail(SlowReader())
        self._changed.set()

    def close(self, error: StreamScribeError | None) -> None:
        """No more come."""
        self.fail(error)

    def fail(self, error: BaseException | None) -> None:
        """Ends the finals with `error`; the first end counts."""
        if not self._over:
            self._over, self._error = True, error
            self._changed.set()

    async def next(self) -> Result | None:
        """The next final, None after the last. Raises what went wrong."""
        while not self._held and not self._over:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        if not self._held:
            return None
        result = self._held.popleft()
        self._held_chars -= len(result.text)
        return result


@asynccontextmanager
async def recognition(
    hub: Hub,
    tenant: Tenant,
    options: SessionOptions,
    decoding: Decoding,
    *,
    max_unread_chars: int,
) -> AsyncIterator[Finals]:
    """The finals of a file that has begun to decode, in a session that was let in. Raises StreamScribeError.

    However the block is left, the decoding child has ended and the session is over.
    """
    async with decoding:
        first = await anext(decoding)
        finals = Finals(max_unread_chars, options.mode.last_pass)
        live = hub.open(tenant, options, finals)
        feed = asyncio.create_task(_feed(live, first, decoding), name="file-feed")
        feed.add_done_callback(lambda task: _on_fed(task, finals))
        try:
            yield finals
        finally:
            await stop(feed)
            if not live.over:
                live.abandon()


async def _feed(live: LiveSession, first: bytes, decoding: Decoding) -> None:
    await live.receive(Audio(first))
    async for block in decoding:
        await live.receive(Audio(block))
    await live.receive(End())


def _on_fed(task: asyncio.Task[None], finals: Finals) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        finals.fail(error)


async def stop(task: asyncio.Task[None]) -> None:
    """Cancels a task and waits for its end."""
    task.cancel()
    await asyncio.wait({task})
