"""The REST routes on a real port, with a real hub, bus and decoder, and a worker that says a script."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from openai import AsyncOpenAI

from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Failed,
    Finished,
    Recognised,
    Record,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.core.results import Result, ResultType, Word
from streamscribe.gateway.app import create_app
from streamscribe.gateway.auth import Authenticator
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.listener import Address, Binding, Listener, bound
from streamscribe.gateway.readiness import Readiness
from streamscribe.gateway.rest import routes
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import TenantStore
from streamscribe.settings import GatewaySettings, LimitSettings


def final(number: int, text: str, language: str | None = "en") -> Result:
    """A segment of a second, its words half a second each."""
    start_ms = number * 1000
    words = tuple(
        Word(word, start_ms + at * 100, start_ms + at * 100 + 100, 0.5) for at, word in enumerate(text.split())
    )
    return Result(
        type=ResultType.FINAL,
        pass_=2,
        segment_id=number,
        version=number + 1,
        sequence=0,
        channel=0,
        text=text,
        stable_chars=len(text),
        start_ms=start_ms,
        end_ms=start_ms + 900,
        words=words,
        confidence=0.5,
        language=language,
    )


@dataclass
class ScriptWorker:
    """Tells the `finals` once a second of audio has come, and ends as `error` says; holds all while `hold` is set."""

    bus: MemoryBus
    finals: Sequence[Result] = ()
    error: StreamScribeError | None = None
    hold: bool = False
    options: SessionOptions | None = None
    received_bytes: int = 0
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.bus.attach_worker(self.take)

    def take(self, record: Record) -> None:
        match record:
            case SessionOpened():
                self.options, self.received_bytes = record.options, 0
                self._later(record.session_id, 0)
            case AudioChunk():
                self.received_bytes += len(record.data)
                self.begun.set()
                if not self.hold:
                    self._later(record.session_id, len(record.data))
            case AudioEnded():
                self._tell_all(record.session_id)
            case SessionAbandoned():
                self.abandoned.set()
            case _:
                return

    def _later(self, session_id: SessionId, size_bytes: int) -> None:
        asyncio.get_running_loop().call_soon(self.bus.settle, session_id, size_bytes)

    def _tell_all(self, session_id: SessionId) -> None:
        for result in self.finals:
            self.bus.emit(Recognised(session_id, replace(result, type=ResultType.PARTIAL, text="guess", version=0)))
            self.bus.emit(Recognised(session_id, result))
        if self.error is not None:
            self.bus.emit(Failed(session_id, self.error))
        elif not self.hold:
            self.bus.emit(Finished(session_id, self.received_bytes // 32))


@dataclass
class Service:
    """What a test talks to and looks at."""

    hub: Hub
    worker: ScriptWorker
    decoders: DecoderPool
    base_url: str
    openai: AsyncOpenAI


@asynccontextmanager
async def serving(
    *finals: Result,
    limits: LimitSettings | None = None,
    store: TenantStore | None = None,
    error: StreamScribeError | None = None,
    hold: bool = False,
    api_key: str = "none",
) -> AsyncIterator[Service]:
    """A service on a free port; at the end no session and no decoding child is left."""
    gateway, limits = GatewaySettings(), limits or LimitSettings()
    bus = MemoryBus(limits.max_backlog_s)
    metrics = Metrics()
    hub = Hub(bus, limits, metrics, OpenDoor())
    auth = Authenticator(store, gateway, max_sessions=int(limits.max_tenant_sessions))
    decoders = DecoderPool(replace(DecodeLimits.from_settings(limits), stall_s=600))  # however busy this machine is
    app = create_app(
        hub,
        auth,
        gateway=gateway,
        limits=limits,
        metrics=metrics,
        readiness=Readiness(hub, lambda: []),
        decode=decoders.decode,
        routes=routes(hub, decoders, limits=limits, model="whisper-base"),
    )
    worker = ScriptWorker(bus, finals, error, hold)
    with bound(Address("127.0.0.1", 0, "gateway.port")) as (taken,):
        async with Listener([Binding(app, taken)], gateway, limits) as listener:
            base_url = f"http://127.0.0.1:{listener.ports[0]}"
            async with AsyncOpenAI(api_key=api_key, base_url=f"{base_url}/v1", max_retries=0) as client:
                yield Service(hub, worker, decoders, base_url, client)
            async with asyncio.timeout(10):
                await hub.wait_empty()
            hub.check_integrity()
            assert not decoders._running
            await hub.close()
    await decoders.close()
    await bus.close()
