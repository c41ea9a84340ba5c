"""Workers that do not keep up: clients are stopped, then told, and only then newcomers refused; whatever the bus."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.memory import MemoryBus
from streamscribe.core import standstill
from streamscribe.core.errors import Overloaded
from streamscribe.core.messages import Audio, SlowDown
from streamscribe.core.options import SessionOptions
from streamscribe.gateway import live_session
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.observe.logs import ATTRIBUTES
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import GatewayBus
from streamscribe.settings import LimitSettings
from tests.gateway.rig import EchoWorker, RecordingSink
from tests.gateway.test_hub import ACME, CHUNK, OPTIONS

BACKLOG_S = 0.5
FILE = SessionOptions(live=False)


@pytest.fixture(params=["memory", "local"])
async def bus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayBus]:
    """A bus whose worker settles nothing, or that has none; clients are told within hundredths of a second."""
    monkeypatch.setattr(standstill, "SLOW_DOWN_AFTER_S", 0.03)
    monkeypatch.setattr(live_session, "SLOW_DOWN_AFTER_S", 0.03)
    if request.param == "memory":
        memory = MemoryBus(BACKLOG_S)
        EchoWorker(memory).hold = True
        yield memory
        await memory.close()
    else:
        local = LocalGatewayBus(BACKLOG_S, 60, lambda opened: None)
        yield local
        await local.close()


async def speak(live: LiveSession) -> None:
    while not live.over:
        await live.receive(Audio(CHUNK))


async def test_clients_are_stopped_then_told_and_then_nobody_new_comes_in(
    bus: GatewayBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "REFUSE_AFTER_S", 600)
    metrics = Metrics()
    counted = metrics.registry.get_sample_value
    hub = Hub(bus, LimitSettings(max_sessions=9, max_backlog_s=BACKLOG_S), metrics, OpenDoor())
    sink = RecordingSink()
    live = hub.open(ACME, OPTIONS, sink)
    speaking = asyncio.create_task(speak(live))
    while bus.room(live.bus_id, len(CHUNK)):
        assert not sink.of(SlowDown)
        assert counted("streamscribe_stopped_sessions") == 0
        await asyncio.sleep(0)
    while not sink.of(SlowDown):
        await asyncio.sleep(0.001)
    hub.open(ACME, OPTIONS, RecordingSink()).abandon()  # nobody is refused yet
    assert counted("streamscribe_stopped_sessions") == 1
    assert counted("streamscribe_shed_sessions_total", {"reason": "standstill"}) is None
    while len(sink.of(SlowDown)) < 2:
        await asyncio.sleep(0.001)
    monkeypatch.setattr(standstill, "REFUSE_AFTER_S", 0.03)  # it stands still for longer than that: it was told twice
    with pytest.raises(Overloaded) as refused:
        hub.open(ACME, OPTIONS, RecordingSink())
    assert refused.value.retry_after_s
    assert counted("streamscribe_shed_sessions_total", {"reason": "standstill"}) == 1
    hub.open(ACME, FILE, RecordingSink()).abandon()  # a file waits for its turn
    live.abandon()
    await speaking
    assert counted("streamscribe_stopped_sessions") == 0
    hub.open(ACME, OPTIONS, RecordingSink()).abandon()
    await hub.close()


async def test_a_file_is_stopped_and_told_nothing(bus: GatewayBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "REFUSE_AFTER_S", 0.1)
    hub = Hub(bus, LimitSettings(max_sessions=9, max_backlog_s=BACKLOG_S), Metrics(), OpenDoor())
    sink = RecordingSink()
    live = hub.open(ACME, FILE, sink)
    speaking = asyncio.create_task(speak(live))
    while bus.room(live.bus_id, len(CHUNK)):
        await asyncio.sleep(0)
    await asyncio.sleep(0.2)
    hub.open(ACME, OPTIONS, RecordingSink()).abandon()
    assert not sink.of(SlowDown)
    live.abandon()
    await speaking
    await hub.close()


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        (OPTIONS, LimitSettings(max_backlog_s=BACKLOG_S, finalize_timeout_s=0.1)),
        (FILE, LimitSettings(max_backlog_s=BACKLOG_S, max_session_s=1)),
    ],
)
async def test_a_session_of_which_nothing_is_taken_ends_and_waits_no_longer(
    bus: GatewayBus, options: SessionOptions, limits: LimitSettings
) -> None:
    hub = Hub(bus, limits, Metrics(), OpenDoor())
    sink = RecordingSink()
    with capture_logs() as lines:
        async with asyncio.timeout(30):
            await speak(hub.open(ACME, options, sink))
    assert isinstance(sink.error, Overloaded)
    assert [line["event"] for line in lines] == ["session opened", "session given up", "session failed"]
    assert (lines[1]["reason"], lines[1]["session_id"]) == ("standstill", lines[2]["session_id"])
    assert lines[1].keys() - {"event", "log_level"} <= ATTRIBUTES
    assert not len(hub)
    await hub.close()
