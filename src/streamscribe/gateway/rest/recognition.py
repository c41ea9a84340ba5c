"""Runs one file through a session of the hub: decoded blocks go in as fast as they are taken, finals come out."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from streamscribe.audio.decode import Decoding
from streamscribe.core.errors import SlowReader, StreamScribeError
from streamscribe.core.messages import Audio, End, ResultSent, ServerMessage
from streamscribe.core.options import SessionOptions
from streamscribe.core.results import Result
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Tenant

OnFinal = Callable[[Result], Awaitable[None]]


class _Finals:
    """The session's sink: keeps the finals that were not taken yet, at most `max_chars` of them."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._held: deque[Result] = deque()
        self._held_chars = 0
        self._changed = asyncio.Event()
        self._over = False
        self.error: StreamScribeError | None = None

    def send(self, message: ServerMessage) -> None:
        if not isinstance(message, ResultSent) or not message.result.is_final or not message.result.text:
            return
        self._held.append(message.result)
        self._held_chars += len(message.result.text)
        if self._held_chars > self._max_chars:
            self.close(SlowReader())
        self._changed.set()

    def close(self, error: StreamScribeError | None) -> None:
        if not self._over:
            self._over, self.error = True, error
        self._changed.set()

    async def next(self) -> Result | None:
        """The next final; None when no more come. Raises what ended the session badly."""
        while not self._held and not self._over:
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        if not self._held:
            return None
        result = self._held.popleft()
        self._held_chars -= len(result.text)
        return result


async def recognise(
    hub: Hub, tenant: Tenant, options: SessionOptions, decoding: Decoding, on_final: OnFinal, *, max_unread_chars: int
) -> None:
    """Gives each final of the file to `on_final`, in order. Raises StreamScribeError.

    However it ends, the decoding has ended and the session is over: one whose reader was cancelled is abandoned.
    """
    async with decoding:
        first = await anext(decoding, b"")
        finals = _Finals(max_unread_chars)
        live = hub.open(tenant, options, finals)
        try:
            async with asyncio.TaskGroup() as tasks:
                feeder = tasks.create_task(_feed(live, first, decoding, finals))
                try:
                    while (final := await finals.next()) is not None:
                        await on_final(final)
                except StreamScribeError as error:
                    finals.close(error)
                feeder.cancel()
        finally:
            if not live.over:
                live.abandon()
        if finals.error is not None:
            raise finals.error


async def _feed(live: LiveSession, first: bytes, decoding: Decoding, finals: _Finals) -> None:
    try:
        await live.receive(Audio(first))
        async for block in decoding:
            await live.receive(Audio(block))
    except StreamScribeError as error:
        finals.close(error)
    else:
        await live.receive(End())
