"""Sessions of a platform in this process, without a network: they hear audio as fast as it is taken."""

import asyncio
import time
from dataclasses import dataclass, field

from streamscribe.bench.load import CHUNK_BYTES
from streamscribe.bootstrap.platform import Platform
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.core.messages import Audio, End, Flush, FlushDone, ResultSent, ServerMessage
from streamscribe.core.options import SessionOptions
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Tenant

TURNS = 5


@dataclass(slots=True)
class Ear:
    """A session's sink: the results so far, and what waits for a flush or for the end."""

    results: list[ResultSent] = field(default_factory=list)
    flushed: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    error: StreamScribeError | None = None

    def send(self, message: ServerMessage) -> None:
        """Keeps what has text."""
        if isinstance(message, ResultSent) and message.result.text:
            self.results.append(message)
        elif isinstance(message, FlushDone):
            self.flushed.set()

    def close(self, error: StreamScribeError | None) -> None:
        """The session is over."""
        self.error = error
        self.over.set()
        self.flushed.set()


class Listening:
    """A session of the platform, and its ear."""

    def __init__(self, parts: Platform, options: SessionOptions) -> None:
        self.ear = Ear()
        tenant = Tenant(TenantId("bench"), parts.settings.limits.max_sessions)
        self._live: LiveSession = parts.hub.open(tenant, options, self.ear)

    async def hear(self, pcm: bytes) -> None:
        """Gives audio in chunks; returns when all of it is processed. Raises what failed the session."""
        self.ear.flushed.clear()
        await self._give(pcm)
        await self._live.receive(Flush("heard"))
        await self.ear.flushed.wait()
        self._check()

    async def hear_all(self, pcm: bytes) -> None:
        """Gives audio in chunks and ends the session; returns when it is over. Raises what failed it."""
        await self._give(pcm)
        await self.end()
        self._check()

    async def end(self) -> None:
        """Ends it; returns when it is over."""
        await self._live.receive(End())
        await self.ear.over.wait()

    async def cost_s(self, pcm: bytes) -> float:
        """Processor seconds of this process, all threads, while it hears."""
        before_s = time.process_time()
        await self.hear(pcm)
        return time.process_time() - before_s

    async def _give(self, pcm: bytes) -> None:
        for at in range(0, len(pcm), CHUNK_BYTES):
            await self._live.receive(Audio(pcm[at : at + CHUNK_BYTES]))

    def _check(self) -> None:
        if self.ear.error is not None:
            raise self.ear.error


async def costs_s(parts: Platform, old: Listening, options: SessionOptions, pcm: bytes) -> list[tuple[float, float]]:
    """What it costs a session that has just begun, and the old one, to hear the audio: in turns, neighbours in time."""
    turns = []
    for _ in range(TURNS):
        young = Listening(parts, options)
        turns.append((await young.cost_s(pcm), await old.cost_s(pcm)))
        await young.end()
    return turns


def resident_bytes() -> int:
    """Memory of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))
