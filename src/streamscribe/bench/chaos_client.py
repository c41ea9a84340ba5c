"""A session of a script by the real client, which resumes: over a hostile network, or at one of several gateways."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from time import perf_counter

from streamscribe.bench.chaos_voice import Script, Told
from streamscribe.bench.load import CHUNK_S
from streamscribe.client.errors import ConnectionLost, ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core import errors
from streamscribe.wire.native_server import AckMessage, ClosedMessage, ResultMessage, ResumedMessage

ENTRIES = 10
"""So often it tries to begin: a session that has not begun has nothing to lose."""
WEBSOCKET_CODES = (1002, 1007)
"""Of what is no WebSocket, and of what is no text (RFC 6455)."""


class Resumer:
    """What one session says, and what it is told."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.told_ = Told()
        self.acked_ms = 0
        self.silences_s: list[float] = []
        """Of each resume: from the last that was heard before it until the server had the session again."""
        self.refusal: str | int | None = None
        """By which error, or with which close code, the server ended it; 0 for any other end."""

    @property
    def whole(self) -> bool:
        """Whether it came to its end."""
        return self.told_.audio_ms is not None

    @property
    def was_told_why(self) -> bool:
        """Whether it was ended by a documented error or close code."""
        return self.refusal in {*WEBSOCKET_CODES, *_documented(errors.StreamScribeError)}

    async def say(self, urls: Sequence[str], *, silence_timeout_s: float, speed: float = 1.0) -> None:
        """The whole script, so many times faster than real time; returns when the session is over, in whatever way."""
        try:
            async with AsyncExitStack() as stack:
                client = await _entered(stack, urls, silence_timeout_s)
                async with asyncio.TaskGroup() as tasks:
                    speaking = tasks.create_task(self._speak(client, speed))
                    await self._listen(client)
                    speaking.cancel()
        except* ServerError as failed:
            self.refusal = next(one.error.name for one in _leaves(failed) if isinstance(one, ServerError))
        except* ConnectionLost as failed:
            self.refusal = next(one.close_code or 0 for one in _leaves(failed) if isinstance(one, ConnectionLost))

    async def _speak(self, client: NativeClient, speed: float) -> None:
        due = perf_counter()
        for chunk in self.script.chunks:
            due += CHUNK_S / speed
            await asyncio.sleep(due - perf_counter())
            await client.send(chunk)
        await client.end()

    async def _listen(self, client: NativeClient) -> None:
        told, heard_at = self.told_, perf_counter()
        async for message in client:
            now = perf_counter()
            match message:
                case ResultMessage():
                    told.texts_at.append(now)
                    if message.is_final:
                        final = (message.text, message.start_ms, message.end_ms)
                        told.finals.setdefault((message.segment_id, message.pass_), []).append(final)
                        told.finals_at.append(now)
                case AckMessage():
                    self.acked_ms = round(1000 * CHUNK_S * (message.sequence + 1))
                case ResumedMessage():
                    self.silences_s.append(now - heard_at)
                case ClosedMessage():
                    told.audio_ms = message.audio_ms
            heard_at = now


async def _entered(stack: AsyncExitStack, urls: Sequence[str], silence_timeout_s: float) -> NativeClient:
    for left in reversed(range(ENTRIES)):
        try:
            return await stack.enter_async_context(NativeClient(urls, silence_timeout_s=silence_timeout_s))
        except (ServerError, ConnectionLost):
            if not left:
                raise
    raise AssertionError


def _documented(root: type[errors.StreamScribeError]) -> set[str | int]:
    """Names and close codes, but those of a defect of ours, which explain nothing."""
    explains = root.code != errors.InternalError.code
    found: set[str | int] = {root.code, root.close_code} if explains else set()
    return found.union(*map(_documented, root.__subclasses__()))


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
