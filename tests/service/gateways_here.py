"""Gateways of a real cluster in the test's own process: their clients are sinks, and a test can break what it likes."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis

from streamscribe.bootstrap.cluster.gateway import ClusterGateway, cluster_gateway
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.core.messages import (
    Ack,
    Audio,
    Closed,
    Connected,
    End,
    ErrorSent,
    ResultSent,
    Resume,
    Resumed,
    ServerMessage,
)
from streamscribe.core.options import SessionOptions
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Tenant
from streamscribe.settings import load
from tests.service.cluster_kit import SETTINGS, Cluster
from tests.service.kit import cut, noise_speech

TENANT = Tenant(TenantId("acme"), max_sessions=100)
_numbers = itertools.count()


@asynccontextmanager
async def gateway_here(running: Cluster, **more: str) -> AsyncIterator[ClusterGateway]:
    """One gateway more."""
    settings = SETTINGS | {"kafka.brokers": running.broker.address, "store.redis_url": running.redis_url}
    number = next(_numbers)
    wished = {name.replace("__", "."): value for name, value in more.items()}
    loaded = load(None, settings | running.more | wished)
    async with cluster_gateway(loaded, f"here-{number}") as parts:
        yield parts


@dataclass
class Client:
    """A client of whichever gateway it is at; it keeps what it hears."""

    tenant: Tenant = TENANT
    heard: list[ServerMessage] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    error: StreamScribeError | None = None
    live: LiveSession | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _next: int = 0

    def send(self, message: ServerMessage) -> None:
        self.heard.append(message)
        self._news.set()

    def close(self, error: StreamScribeError | None) -> None:
        self.error = error
        self.closed.set()

    def open(self, gateway: ClusterGateway) -> None:
        self.live = gateway.hub.open(self.tenant, SessionOptions(sequenced=True), self, resumable=True)

    async def speak(self, data: bytes) -> None:
        assert self.live is not None
        await self.live.receive(Audio(data, self._next))
        self._next += 1

    async def say(self, pcm: bytes) -> None:
        """Speaks at twice real time."""
        for packet in cut(pcm, 6400):
            await self.speak(packet)
            await asyncio.sleep(len(packet) / 64_000)

    async def ends_well(self) -> bool:
        """Says no more, and hears all."""
        assert self.live is not None
        await self.live.receive(End())
        await self.closed.wait()
        return isinstance(self.heard[-1], Closed)

    async def acked(self) -> None:
        """Returns when all that was said is in the log."""
        while not any(isinstance(message, Ack) and message.sequence == self._next - 1 for message in self.heard):
            self._news.clear()
            await self._news.wait()

    async def owned(self) -> None:
        """Returns when a worker has the session: it tells what it heard."""
        await self.say(noise_speech(9, bursts=1))
        while not any(isinstance(message, ResultSent) for message in self.heard):
            self._news.clear()
            await self._news.wait()

    def resume(self) -> Resume:
        first = next(message for message in self.heard if isinstance(message, Connected))
        acks = [message.sequence for message in self.heard if isinstance(message, Ack)]
        versions = [message.result.version for message in self.heard if isinstance(message, ResultSent)]
        return Resume(first.session_id, first.resume_token, max(versions, default=0), acks[-1] if acks else None)

    def finals(self) -> list[tuple[int, int, str, int, int]]:
        """What was told for good, in the order of versions, which grow."""
        results = [message.result for message in self.heard if isinstance(message, ResultSent)]
        versions = [result.version for result in results]
        assert versions == sorted(set(versions))
        return sorted((r.segment_id, r.pass_, r.text, r.start_ms, r.end_ms) for r in results if r.is_final)

    async def come_to(self, gateway: ClusterGateway) -> None:
        """Loses its connection and resumes there; raises what the gateway says."""
        if self.live is not None and not self.live.over:
            self.live.detach()
        self.closed.clear()
        self.error = None
        self.live = await gateway.hub.resume_anywhere(self.tenant, self.resume(), self)
        told = [message for message in self.heard if isinstance(message, Resumed)]
        assert told[-1].next_sequence == self._next

    def errors(self) -> list[str]:
        return [message.error.code for message in self.heard if isinstance(message, ErrorSent)]


async def spoken(gateway: ClusterGateway, tenant: Tenant = TENANT) -> Client:
    """A client whose first words are acknowledged."""
    client = Client(tenant)
    client.open(gateway)
    await client.speak(bytes(6400))
    await client.acked()
    return client


@contextmanager
def frozen_redis(url: str) -> Iterator[None]:
    """A Redis that answers nobody."""
    with redis.Redis.from_url(url) as client:
        info: Any = client.info("server")
    os.kill(info["process_id"], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(info["process_id"], signal.SIGCONT)
