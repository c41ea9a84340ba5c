"""Sessions that fail while nobody is there, and connections that end without a failure: who hears it, what counts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import (
    BusUnavailable,
    InternalError,
    ModelUnavailable,
    Overloaded,
    QuotaExceeded,
    SequenceGap,
    StreamScribeError,
)
from streamscribe.core.messages import Audio, Connected, ErrorSent, Resume, Resumed
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.records import Failed, Record, SessionAbandoned
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import LimitSettings
from tests.gateway.rig import EchoWorker, RecordingSink
from tests.gateway.test_hub import ACME
from tests.gateway.test_waiting_for_room import in_virtual_time

OPTIONS = SessionOptions(mode=Mode.ONLINE, sequenced=True)
CHUNK = bytes([7]) + bytes(3199)
LIMITS = LimitSettings(max_backlog_s=0.5, finalize_timeout_s=5, resume_window_s=30)


class FailingBus(MemoryBus):
    """Takes nothing more where a test says so."""

    broken = False

    async def publish(self, record: Record) -> None:
        if self.broken and not isinstance(record, SessionAbandoned):
            await asyncio.sleep(1)
            raise BusUnavailable
        await super().publish(record)


@dataclass
class Rig:
    """One session of a gateway, and what is known of its end."""

    hub: Hub
    bus: FailingBus
    worker: EchoWorker
    metrics: Metrics
    sink: RecordingSink
    live: LiveSession

    async def suffer(self, fault: "Fault", there: bool) -> StreamScribeError:
        """What the fault is to be known as; its client is gone meanwhile, unless it only seems to be there."""
        suffering = asyncio.ensure_future(fault(self))
        await asyncio.sleep(0)
        if not there:
            self.live.detach()
        await asyncio.sleep(LIMITS.finalize_timeout_s + 1)
        return await suffering

    async def resume(self) -> RecordingSink:
        greeting, again = self.sink.of(Connected)[0], RecordingSink()
        message = Resume(greeting.session_id, greeting.resume_token, 0, None)
        assert await self.hub.resume_anywhere(ACME, message, again) is self.live
        return again

    def failed(self) -> dict[str, float]:
        """How many sessions failed, by code."""
        (family,) = (one for one in self.metrics.registry.collect() if one.name == "streamscribe_failed_sessions")
        return {one.labels["code"]: one.value for one in family.samples if one.name.endswith("_total") and one.value}


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    bus, metrics, sink = FailingBus(LIMITS.max_backlog_s), Metrics(), RecordingSink()
    hub = Hub(bus, LIMITS, metrics, OpenDoor())
    live = hub.open(ACME, OPTIONS, sink, resumable=True)
    made = Rig(hub, bus, EchoWorker(bus), metrics, sink, live)
    await live.receive(Audio(CHUNK, 0))
    yield made
    await hub.close()
    hub.check_integrity()
    await bus.close()


async def the_bus_fails(made: Rig) -> StreamScribeError:
    made.bus.broken = True
    await made.live.receive(Audio(CHUNK, 1))
    return BusUnavailable()


async def the_store_knows_of_too_many(made: Rig) -> StreamScribeError:
    class Full:
        async def enter(self, *args: object, **bounds: object) -> None:
            await asyncio.sleep(0.5)
            raise QuotaExceeded

    seats = SeatKeeper(Full(), "here", 60, 60)  # type: ignore[arg-type]
    seats.spoke(made.live)
    await seats.close()
    return QuotaExceeded()


async def nothing_is_taken(made: Rig) -> StreamScribeError:
    made.worker.hold = True
    for sequence in range(1, 9):
        await made.live.receive(Audio(CHUNK, sequence))
    return Overloaded()


async def the_worker_fails(made: Rig) -> StreamScribeError:
    await asyncio.sleep(1)
    made.bus.emit(Failed(made.live.bus_id, ModelUnavailable()))
    return ModelUnavailable()


Fault = Callable[[Rig], Awaitable[StreamScribeError]]
FAULTS = [the_bus_fails, the_store_knows_of_too_many, nothing_is_taken, the_worker_fails]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("there", [True, False], ids=["half-open", "away"])
def test_law_8_a_session_that_fails_while_its_client_is_away_says_so_when_it_comes_back(
    fault: Fault, there: bool
) -> None:
    async def main() -> None:
        async with rig() as made:
            expected = await made.suffer(fault, there)
            again = await made.resume()
            assert isinstance(again.messages[0], Resumed)
            error = again.of(ErrorSent)[-1].error
            assert (error.code, error.retry) == (expected.code, expected.retry)
            assert again.closed
            made.live.delivered()
            await asyncio.sleep(0)
            assert made.failed() == {expected.code: 1}
            assert (len(made.worker.abandoned()), len(made.hub)) == (fault is not the_worker_fails, 0)

    in_virtual_time(main)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("there", [True, False], ids=["half-open", "away"])
def test_law_8_a_session_that_fails_and_whose_client_never_returns_is_counted_and_logged_once(
    fault: Fault, there: bool
) -> None:
    async def main() -> None:
        async with rig() as made:
            with capture_logs() as lines:
                expected = await made.suffer(fault, there)
                await made.hub.wait_empty()
            assert made.failed() == {expected.code: 1}
            ends = [line for line in lines if line["event"] in ("session failed", "session over")]
            assert [(line["event"], line["code"]) for line in ends] == [("session failed", expected.code)]

    in_virtual_time(main)


def test_a_client_that_comes_back_before_its_last_connection_is_missed_has_not_failed() -> None:
    async def main() -> None:
        async with rig() as made:
            with capture_logs() as lines:
                await made.resume()
            assert made.sink.of(ErrorSent)[-1].error.code == "session_superseded"
            assert made.failed() == {}
            assert [line for line in lines if line["event"] == "session failed"] == []

    in_virtual_time(main)


def test_a_session_that_lives_on_behind_a_gap_has_not_failed_and_one_whose_client_never_returns_is_over() -> None:
    async def main() -> None:
        async with rig() as made:
            await made.live.receive(Audio(CHUNK, 2))
            while not made.sink.closed:
                await asyncio.sleep(0.5)
            assert isinstance(made.sink.error, SequenceGap)
            assert made.failed() == {}
            with capture_logs() as lines:
                await made.hub.wait_empty()
            assert made.failed() == {}
            assert [line["event"] for line in lines] == ["session over"]

    in_virtual_time(main)


def test_a_session_without_a_resume_that_fails_is_counted_at_once() -> None:
    async def main() -> None:
        async with rig() as made:
            other = made.hub.open(ACME, OPTIONS, RecordingSink())
            await other.receive(Audio(CHUNK, 0))
            made.bus.emit(Failed(other.bus_id, InternalError()))
            assert made.failed() == {"internal": 1}

    in_virtual_time(main)
