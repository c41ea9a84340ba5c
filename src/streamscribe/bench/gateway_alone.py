"""A server that is a gateway and no more: what stands for the worker settles each chunk at once and says what it is
told to, so that whatever is measured is the gateway's. Run as a module by `bench gateway`; serves until SIGTERM."""

import asyncio
import json
from time import monotonic

import uvloop

from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.ids import SessionId
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Finished,
    Recognised,
    Record,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.core.transcript import Transcript
from streamscribe.gateway.app import create_app
from streamscribe.gateway.auth import Authenticator
from streamscribe.gateway.collector import settle_collector
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.drain import drain, stop_signals
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.listener import Address, Binding, Listener, bound
from streamscribe.gateway.readiness import Readiness
from streamscribe.observe.logs import configure
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import GatewaySettings, LimitSettings, ObserveSettings

CHUNKS_PER_PARTIAL = 5
CHUNKS_PER_FINAL = 30
CHUNK_MS = 100
TEXT = "what a person says in three seconds of speech"


class _StandIn:
    """Ten chunks a second, two partials a second, a final every three seconds, of every session."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._sessions: dict[SessionId, tuple[Transcript, int]] = {}

    def accept(self, record: Record) -> None:
        """Takes a record of the bus."""
        session_id = record.session_id
        match record:
            case SessionOpened():
                self._sessions[session_id] = (Transcript(1), 0)
                self._bus.settle(session_id, 0)
            case AudioChunk():
                transcript, chunks = self._sessions[session_id]
                self._sessions[session_id] = (transcript, chunks + 1)
                self._bus.settle(session_id, len(record.data))
                self._speak(session_id, transcript, chunks, record.sequence)
            case AudioEnded():
                _, chunks = self._sessions.pop(session_id)
                self._bus.emit(Finished(session_id, chunks * CHUNK_MS))
            case SessionAbandoned():
                self._sessions.pop(session_id, None)
            case _:
                self._bus.settle(session_id, 0)

    def _speak(self, session_id: SessionId, transcript: Transcript, chunks: int, sequence: int) -> None:
        segment, turn = divmod(chunks, CHUNKS_PER_FINAL)
        end_ms = (chunks + 1) * CHUNK_MS
        if turn == 0:
            transcript.open_segment(0, chunks * CHUNK_MS)
        result = None
        if turn == CHUNKS_PER_FINAL - 1:
            result = transcript.final(segment, 1, TEXT, end_ms, (), sequence=sequence, confidence=0.9, language="en")
        elif turn % CHUNKS_PER_PARTIAL == CHUNKS_PER_PARTIAL - 1:
            text = TEXT[: len(TEXT) * (turn + 1) // CHUNKS_PER_FINAL]
            result = transcript.partial(segment, text, end_ms, sequence=sequence, confidence=0.9, language="en")
        if result is not None:
            self._bus.emit(Recognised(session_id, result))


async def _serve(started_at: float) -> None:
    gateway = GatewaySettings(port=0)
    limits = LimitSettings(max_sessions=100_000, max_tenant_sessions=100_000)
    metrics = Metrics()
    bus = MemoryBus(limits.max_backlog_s)
    hub = Hub(bus, limits, metrics, OpenDoor())
    bus.attach_worker(_StandIn(bus).accept)
    decoders = DecoderPool(DecodeLimits.from_settings(limits), spare=False)
    app = create_app(
        hub,
        Authenticator(None, gateway, max_sessions=limits.max_tenant_sessions),
        gateway=gateway,
        limits=limits,
        metrics=metrics,
        readiness=Readiness(hub, lambda: []),
        decode=decoders.decode,
    )
    with bound(Address(gateway.host, 0, "port")) as (taken,):
        async with (
            stop_signals() as stop,
            Listener([Binding(app, taken)], gateway, limits) as listener,
            asyncio.TaskGroup() as tasks,
        ):
            probing = tasks.create_task(probe_event_loop(metrics.loop_lagged))
            settle_collector()
            url = f"http://{gateway.host}:{listener.ports[0]}"
            print(json.dumps({"url": url, "funasr_url": None, "ready_s": monotonic() - started_at}), flush=True)  # noqa: T201
            await stop.wait()
            probing.cancel()
            await drain(hub, gateway)


if __name__ == "__main__":
    configure(ObserveSettings(log_level="error"))
    uvloop.run(_serve(monotonic()))
