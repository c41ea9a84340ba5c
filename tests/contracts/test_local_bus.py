"""The local bus over a real socket pair, both ends in one loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamscribe.bus.local.gateway import LocalGatewayBus
from streamscribe.bus.local.link import Link
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.records import SessionOpened
from tests.contracts.bus import BusContract, Ends


class TestLocalBus(BusContract):
    @asynccontextmanager
    async def make_bus(self, max_backlog_s: float) -> AsyncIterator[Ends]:
        def only(opened: SessionOpened) -> int:
            return 1

        ours, theirs = socket.socketpair()
        at_gateway, at_worker = await asyncio.gather(Link.open(ours), Link.open(theirs))
        gateway = LocalGatewayBus(max_backlog_s, 60, only)
        gateway.join(1, at_gateway)
        yield Ends(gateway, LocalWorkerBus(at_worker))
        gateway.check_integrity()
        await gateway.close()
        at_gateway.close()
        assert await asyncio.gather(at_gateway.closed, at_worker.closed) == [None, None]
