import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamscribe.bus.backlog import MAX_UNSETTLED_RECORDS
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.ids import SessionId
from streamscribe.core.records import FlushRequested, Progress, WorkerEvent
from tests.contracts.bus import BusContract, Inbox, chunk, opened


class TestMemoryBus(BusContract):
    @asynccontextmanager
    async def make_bus(self, max_backlog_s: float) -> AsyncIterator[MemoryBus]:
        bus = MemoryBus(max_backlog_s)
        yield bus
        bus.check_integrity()
        await bus.close()

    async def test_publish_does_not_suspend_while_there_is_room(self) -> None:
        async with self.make_bus(5) as bus:
            bus.attach_worker(inbox := Inbox())
            for record in (opened("a"), chunk("a", 1)):
                with pytest.raises(StopIteration):
                    bus.publish(record).send(None)
            assert len(inbox.items) == 2

    async def test_records_without_audio_are_bounded_too(self) -> None:
        async with self.make_bus(5) as bus:
            bus.attach_worker(inbox := Inbox())
            await bus.publish(opened("a"))
            for index in range(1, MAX_UNSETTLED_RECORDS):
                await bus.publish(FlushRequested(SessionId("a"), index, "m"))
            waiting = asyncio.ensure_future(bus.publish(FlushRequested(SessionId("a"), MAX_UNSETTLED_RECORDS, "m")))
            await asyncio.sleep(0)
            assert not waiting.done()
            bus.settle(SessionId("a"), 0)
            await waiting
            assert len(inbox.items) == MAX_UNSETTLED_RECORDS + 1

    async def test_settling_what_was_never_delivered_breaks_the_equation(self) -> None:
        bus = MemoryBus(1)
        bus.attach_worker(Inbox())
        await bus.publish(opened("a"))
        bus.settle(SessionId("a"), 1)
        with pytest.raises(AssertionError):
            bus.check_integrity()

    async def test_a_gateway_that_fails_to_take_an_event_does_not_fail_the_worker(self) -> None:
        reported: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

        def broken(event: WorkerEvent) -> None:
            raise KeyError("a defect")

        async with self.make_bus(5) as bus:
            bus.attach_gateway(broken)
            bus.emit(Progress(SessionId("a"), 1))
        assert isinstance(reported[0]["exception"], KeyError)
