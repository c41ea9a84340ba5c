"""A gateway on real sockets with a scripted worker: what the tests of this folder drive."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.messages import ServerMessage
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Finished,
    Flushed,
    FlushRequested,
    Recognised,
    Record,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.core.results import Result, ResultType
from streamscribe.gateway.app import create_app, create_funasr_app
from streamscribe.gateway.auth import Authenticator
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.listener import Address, Binding, Listener, bound
from streamscribe.gateway.readiness import Readiness
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import TenantStore
from streamscribe.settings import GatewaySettings, LimitSettings

T = TypeVar("T")


def result(segment: int, version: int, text: str, *, final: bool, sequence: int = 0) -> Result:
    """A result whose times follow from its segment."""
    return Result(
        type=ResultType.FINAL if final else ResultType.PARTIAL,
        pass_=2 if final else 1,
        segment_id=segment,
        version=version,
        sequence=sequence,
        channel=0,
        text=text,
        stable_chars=0,
        start_ms=segment * 100,
        end_ms=segment * 100 + 100,
    )


@dataclass
class EchoWorker:
    """Hears each chunk as one segment whose text is its first byte; keeps what it was given.

    With `hold` set it settles nothing: the backlog fills up. With `defect` it breaks in its caller's hands.
    """

    bus: MemoryBus
    records: list[Record] = field(default_factory=list)
    versions: dict[SessionId, int] = field(default_factory=dict)
    hold: bool = False
    defect: bool = False
    unsettled: list[AudioChunk] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bus.attach_worker(self.take)

    def take(self, record: Record) -> None:
        if self.defect:
            raise ZeroDivisionError
        self.records.append(record)
        match record:
            case AudioChunk():
                self.unsettled.append(record)
                if not self.hold:
                    asyncio.get_running_loop().call_soon(self.settle_all)
                if not record.data:
                    return
                version = self.versions[record.session_id] = self.versions.get(record.session_id, 0) + 1
                said = result(version, version, str(record.data[0]), final=True, sequence=record.sequence)
                self.bus.emit(Recognised(record.session_id, said))
            case FlushRequested():
                self.bus.emit(Flushed(record.session_id, record.marker, record.index))
            case AudioEnded():
                self.bus.emit(Finished(record.session_id, audio_ms=0))
            case _:
                return

    def settle_all(self) -> None:
        self.hold = False
        settled, self.unsettled = self.unsettled, []
        for chunk in settled:
            self.bus.settle(chunk.session_id, len(chunk.data))

    def chunks(self) -> int:
        return sum(isinstance(record, AudioChunk) for record in self.records)

    def abandoned(self) -> list[SessionId]:
        return [record.session_id for record in self.records if isinstance(record, SessionAbandoned)]

    def opened(self) -> list[SessionOpened]:
        return [record for record in self.records if isinstance(record, SessionOpened)]


@dataclass
class RecordingSink:
    """Keeps what a session sends to it."""

    messages: list[ServerMessage] = field(default_factory=list)
    closed: bool = False
    error: StreamScribeError | None = None

    def send(self, message: ServerMessage) -> None:
        assert not self.closed
        self.messages.append(message)

    def close(self, error: StreamScribeError | None) -> None:
        assert not self.closed
        self.closed, self.error = True, error

    def of(self, kind: type[T]) -> list[T]:
        return [message for message in self.messages if isinstance(message, kind)]


@dataclass
class Gateway:
    """A running gateway and what stands behind it."""

    app: Starlette
    hub: Hub
    bus: MemoryBus
    worker: EchoWorker
    metrics: Metrics
    port: int
    funasr_port: int

    def connected(self) -> int:
        """Sessions that have a connection."""
        return sum(live.connected for live in self.hub.sessions())

    def url(self, path: str = "/ws/asr") -> str:
        return f"ws://127.0.0.1:{self.port}{path}"

    def connect(self, path: str = "/ws/asr", **options: Any) -> connect:
        return connect(self.url(path), compression=None, **options)


@asynccontextmanager
async def running(
    *,
    gateway: GatewaySettings | None = None,
    limits: LimitSettings | None = None,
    store: TenantStore | None = None,
    routes: Sequence[BaseRoute] = (),
    ready: bool = True,
    ping_s: float = 20,
) -> AsyncIterator[Gateway]:
    """Serves on free ports of loopback; at the end every ledger's equation holds."""
    gateway = gateway or GatewaySettings()
    limits = limits or LimitSettings()
    bus = MemoryBus(limits.max_backlog_s)
    metrics = Metrics()
    hub = Hub(bus, limits, metrics, OpenDoor())
    readiness = Readiness(hub, lambda: [] if ready else ["models"])
    auth = Authenticator(store, gateway, max_sessions=int(limits.max_tenant_sessions))
    decoder = DecoderPool(DecodeLimits(stall_s=600), spare=False)  # however busy this machine is
    shared: dict[str, Any] = {"gateway": gateway, "limits": limits, "readiness": readiness, "decode": decoder.decode}
    app = create_app(hub, auth, metrics=metrics, routes=routes, **shared)
    apps = (app, create_funasr_app(hub, auth, **shared))
    places = (Address("127.0.0.1", 0, "gateway.port"), Address("127.0.0.1", 0, "gateway.funasr_port"))
    with bound(*places) as sockets:
        async with Listener(list(map(Binding, apps, sockets)), gateway, limits, ping_s=ping_s) as listener:
            port, funasr_port = listener.ports
            yield Gateway(app, hub, bus, EchoWorker(bus), metrics, port, funasr_port)
            hub.check_integrity()
            await hub.close()
    hub.check_integrity()
    await bus.close()
    await decoder.close()


async def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of a kind; those before it are passed over."""
    while True:
        message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] == kind:
            return message


async def closing(socket: ClientConnection) -> tuple[int, str]:
    """The close code and reason, whatever comes before."""
    with suppress(ConnectionClosedError):
        async for _ in socket:
            pass
    assert socket.close_code is not None
    return socket.close_code, socket.close_reason or ""
