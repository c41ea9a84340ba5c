"""The hub and its live sessions without sockets: registry, quota, order, what ends a session and what does not."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from streamscribe.bus.memory import MemoryBus
from streamscribe.core.audio import AudioFormat
from streamscribe.core.errors import (
    Draining,
    InternalError,
    Overloaded,
    QuotaExceeded,
    SessionNotFound,
    SlowReader,
    StreamScribeError,
)
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.messages import Audio, Closed, Connected, End, ErrorSent, Ping, ResultSent, Resume, Resumed
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.records import AudioChunk, Failed, SessionAbandoned
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings
from tests.gateway.rig import EchoWorker, RecordingSink

ACME = Tenant(TenantId("acme"), max_sessions=3)
OTHER = Tenant(TenantId("other"), max_sessions=3)
OPTIONS = SessionOptions(mode=Mode.ONLINE)
CHUNK = bytes([7]) + bytes(319)


@dataclass
class Rig:
    hub: Hub
    bus: MemoryBus
    worker: EchoWorker
    metrics: Metrics

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    limits = LimitSettings(max_sessions=4, max_backlog_s=0.5, resume_window_s=30)
    bus, metrics = MemoryBus(limits.max_backlog_s), Metrics()
    hub = Hub(bus, limits, metrics, OpenDoor())
    yield Rig(hub, bus, EchoWorker(bus), metrics)
    hub.check_integrity()
    await hub.close()
    hub.check_integrity()
    assert len(hub) == 0
    await bus.close()


def token_of(sink: RecordingSink) -> Connected:
    return sink.of(Connected)[0]


async def test_a_session_greets_hears_and_ends(rig: Rig) -> None:
    sink = RecordingSink()
    live = rig.hub.open(ACME, OPTIONS, sink)
    await live.receive(Audio(CHUNK))
    await live.receive(End())
    assert [type(message) for message in sink.messages] == [Connected, ResultSent, Closed]
    assert (sink.closed, sink.error) == (True, None)
    assert live.over
    await live.receive(Audio(CHUNK))
    assert rig.worker.chunks() == 1


class Door:
    """Lets in while it is open, and counts who is inside."""

    def __init__(self) -> None:
        self.open = True
        self.inside: list[SessionOptions] = []
        self.yielding: list[bool] = []

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        if not self.open:
            return Overloaded(retry_after_s=2.0)
        self.inside.append(options)
        self.yielding.append(yields)
        return None

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        self.inside.remove(options)


async def test_a_tenant_begins_as_many_sessions_a_minute_as_it_may_and_one_that_is_refused_does_not_count() -> None:
    limits, bus, door = LimitSettings(max_new_sessions_per_min=2), MemoryBus(0.5), Door()
    hub, worker = Hub(bus, limits, Metrics(), door), EchoWorker(bus)
    door.open = False
    for _ in range(3):
        with pytest.raises(Overloaded):
            hub.open(ACME, OPTIONS, RecordingSink())
    door.open = True
    for _ in range(2):
        hub.open(ACME, OPTIONS, RecordingSink()).abandon()
    with pytest.raises(QuotaExceeded) as refused:
        hub.open(ACME, OPTIONS, RecordingSink())
    assert refused.value.retry_after_s == pytest.approx(60, abs=5)
    hub.open(replace(ACME, max_new_sessions_per_min=3), OPTIONS, RecordingSink()).abandon()
    hub.open(OTHER, OPTIONS, RecordingSink()).abandon()
    hub.check_integrity()
    assert worker.chunks() == 0
    await hub.close()
    await bus.close()


async def test_a_tenant_without_priority_says_so_at_the_door() -> None:
    bus, door = MemoryBus(0.5), Door()
    hub = Hub(bus, LimitSettings(), Metrics(), door)
    for tenant in (ACME, replace(OTHER, yields=True)):
        hub.open(tenant, OPTIONS, RecordingSink()).abandon()
    assert door.yielding == [False, True]
    await hub.close()
    await bus.close()


async def test_one_who_is_refused_for_the_load_costs_no_quota_and_says_nothing_to_the_worker() -> None:
    limits, bus, metrics, door = LimitSettings(), MemoryBus(0.5), Metrics(), Door()
    hub, worker = Hub(bus, limits, metrics, door), EchoWorker(bus)
    door.open = False
    for _ in range(5):
        sink = RecordingSink()
        with pytest.raises(Overloaded) as refused:
            hub.open(ACME, OPTIONS, sink)
        assert refused.value.retry_after_s == 2.0
        assert sink.messages == []
    hub.check_integrity()
    assert worker.records == []
    door.open = True
    stereo = replace(OPTIONS, audio=AudioFormat(channels=2))
    lives = [hub.open(ACME, options, RecordingSink()) for options in (OPTIONS, OPTIONS, stereo)]
    assert door.inside == [OPTIONS, OPTIONS, stereo]
    with pytest.raises(QuotaExceeded):
        hub.open(ACME, OPTIONS, RecordingSink())
    assert len(door.inside) == 3
    for live in lives:
        live.abandon()
    assert door.inside == []
    await hub.close()
    await bus.close()


async def test_quotas_hold_for_the_tenant_and_for_the_process(rig: Rig) -> None:
    lives = [rig.hub.open(ACME, OPTIONS, RecordingSink()) for _ in range(3)]
    with pytest.raises(QuotaExceeded):
        rig.hub.open(ACME, OPTIONS, RecordingSink())
    rig.hub.open(OTHER, OPTIONS, RecordingSink())
    with pytest.raises(Overloaded):
        rig.hub.open(OTHER, OPTIONS, RecordingSink())
    lives[0].abandon()
    rig.hub.open(ACME, OPTIONS, RecordingSink())
    assert rig.counted("funasr_active_sessions", tenant="acme") == 3
    assert rig.counted("streamscribe_refused_sessions_total", code="quota_exceeded") == 1
    assert rig.counted("streamscribe_refused_sessions_total", code="overloaded") == 1


async def test_nothing_is_opened_while_draining(rig: Rig) -> None:
    rig.hub.draining = True
    with pytest.raises(Draining) as refused:
        rig.hub.open(ACME, OPTIONS, RecordingSink())
    assert refused.value.retry_after_s


async def test_a_resume_needs_the_tenant_the_id_and_the_token(rig: Rig) -> None:
    sink = RecordingSink()
    live = rig.hub.open(ACME, OPTIONS, sink)
    await live.receive(Audio(CHUNK))
    live.detach()
    right = token_of(sink)
    message = Resume(right.session_id, right.resume_token, 0, None)
    for tenant, wrong in (
        (OTHER, message),
        (ACME, Resume("unknown", right.resume_token, 0, None)),
        (ACME, Resume(right.session_id, "wrong", 0, None)),
        (ACME, Resume(right.session_id, "字", 0, None)),
    ):
        with pytest.raises(SessionNotFound):
            await rig.hub.resume_anywhere(tenant, wrong, RecordingSink())
    again = RecordingSink()
    assert await rig.hub.resume_anywhere(ACME, message, again) is live
    assert [type(sent) for sent in again.messages] == [Resumed, ResultSent]


async def test_a_session_id_that_two_tenants_choose_is_two_sessions(rig: Rig) -> None:
    """Law 9."""
    sinks = RecordingSink(), RecordingSink()
    chosen = SessionId("call-1")
    mine, theirs = (
        rig.hub.open(tenant, OPTIONS, sink, session_id=chosen)
        for tenant, sink in zip((ACME, OTHER), sinks, strict=True)
    )
    await mine.receive(Audio(b"\x01\x00"))
    await theirs.receive(Audio(b"\x02\x00"))
    assert [sink.of(ResultSent)[0].result.text for sink in sinks] == ["1", "2"]
    assert {sink.of(ResultSent)[0].session_id for sink in sinks} == {"call-1"}
    assert rig.hub.is_known(ACME, "call-1")
    mine.abandon()
    assert not rig.hub.is_known(ACME, "call-1")
    assert rig.hub.is_known(OTHER, "call-1")


async def test_records_that_wait_for_room_go_in_order_and_a_cancelled_reader_loses_none(rig: Rig) -> None:
    live = rig.hub.open(ACME, OPTIONS, RecordingSink())
    rig.worker.hold = True
    for _ in range(5):
        await live.receive(Audio(bytes([1]) + bytes(3199)))
    reader = asyncio.create_task(live.receive(Audio(bytes([2]) + bytes(3199))))
    await asyncio.sleep(0)
    assert rig.worker.chunks() == 5
    reader.cancel()
    await asyncio.wait([reader])
    rig.worker.settle_all()
    await live.receive(Audio(bytes([3]) + bytes(3199)))
    first = {}
    for record in rig.worker.records:
        if isinstance(record, AudioChunk):
            first.setdefault(record.index, record.data[0])
    assert list(first.values()) == [1, 1, 1, 1, 1, 2, 3]
    assert list(first) == sorted(first)


async def test_a_reader_that_waits_for_room_is_freed_when_the_session_ends(rig: Rig) -> None:
    sink = RecordingSink()
    live = rig.hub.open(ACME, OPTIONS, sink)
    rig.worker.hold = True
    for _ in range(5):
        await live.receive(Audio(bytes([1]) + bytes(3199)))
    reader = asyncio.create_task(live.receive(Audio(bytes([1]) + bytes(3199))))
    await asyncio.sleep(0)
    live.kill(SlowReader())
    async with asyncio.timeout(30):
        await reader
        while not rig.worker.abandoned():
            await asyncio.sleep(0)
    assert isinstance(sink.error, SlowReader)


async def test_a_reader_that_is_paced_is_freed_when_the_session_ends(rig: Rig) -> None:
    live = rig.hub.open(ACME, SessionOptions(), RecordingSink())
    reader = asyncio.create_task(live.receive(Audio(bytes([1]) + bytes(32_000 * 60))))
    await asyncio.sleep(0.01)
    assert not reader.done()
    live.kill(SlowReader())
    async with asyncio.timeout(30):
        await reader


async def test_a_worker_that_fails_a_session_fails_no_other(rig: Rig) -> None:
    """Law 8."""
    sinks = RecordingSink(), RecordingSink()
    bad, good = (rig.hub.open(ACME, OPTIONS, sink) for sink in sinks)
    await bad.receive(Audio(CHUNK))
    await good.receive(Audio(CHUNK))
    rig.bus.emit(Failed(bad.bus_id, InternalError()))
    assert [type(message) for message in sinks[0].messages[-2:]] in ([ResultSent, ErrorSent], [ErrorSent, Closed])
    assert isinstance(sinks[0].error, InternalError)
    await good.receive(Audio(CHUNK))
    assert len(sinks[1].of(ResultSent)) == 2
    assert rig.counted("streamscribe_failed_sessions_total", code="internal") == 1


async def test_an_abandoned_session_says_nothing_more_and_the_worker_is_told(rig: Rig) -> None:
    sink = RecordingSink()
    live = rig.hub.open(ACME, OPTIONS, sink)
    await live.receive(Audio(CHUNK))
    before = list(sink.messages)
    live.abandon()
    await asyncio.sleep(0)
    assert sink.messages == before
    assert not sink.closed
    assert isinstance(rig.worker.records[-1], SessionAbandoned)
    assert len(rig.hub) == 0
    assert rig.counted("streamscribe_failed_sessions_total", code="session_superseded") == 0


async def test_a_bus_that_closes_ends_its_sessions_with_a_typed_error(rig: Rig) -> None:
    sink = RecordingSink()
    live = rig.hub.open(ACME, OPTIONS, sink)
    await rig.bus.close()
    await live.receive(Audio(CHUNK))
    assert isinstance(sink.error, Draining)
    await asyncio.sleep(0)


async def test_a_ping_is_answered_and_events_of_unknown_sessions_are_dropped(rig: Rig) -> None:
    sink = RecordingSink()
    live = rig.hub.open(ACME, OPTIONS, sink)
    await live.receive(Ping())
    rig.hub.deliver(Failed(SessionId("nobody"), InternalError()))
    assert len(sink.messages) == 2
