"""A connection that waits for room on the bus: its client goes, or nobody ever settles; in virtual time."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamscribe.bus.memory import MemoryBus
from streamscribe.core.ids import TenantId
from streamscribe.core.records import AudioChunk
from streamscribe.gateway.connection import LAST_WORDS_S
from streamscribe.gateway.door import Admission, OpenDoor
from streamscribe.gateway.drain import drain
from streamscribe.gateway.endpoint import TRANSPORT, FunasrEndpoint, WebSocketEndpoint
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.live_session import MOST_READERS
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import Tenant
from streamscribe.settings import GatewaySettings, LimitSettings
from tests.gateway.rig import EchoWorker
from tests.sim.clock import VirtualLoop, run_virtually
from tests.sim.network import Closed, Delay, WebSocket

NATIVE, FUNASR = "native", "funasr"
CHUNK = bytes([7]) + bytes(3199)
LIMITS = LimitSettings()
GATEWAY = GatewaySettings()


class Rig:
    """A gateway whose worker settles nothing until it is told, and its connections."""

    def __init__(self, door: Admission | None = None) -> None:
        self.bus = MemoryBus(LIMITS.max_backlog_s)
        self.worker = EchoWorker(self.bus)
        self.worker.hold = True
        self.metrics = Metrics()
        self.hub = Hub(self.bus, LIMITS, self.metrics, door or OpenDoor())
        self.tasks: list[asyncio.Task[None]] = []
        self.sockets: list[WebSocket] = []

    def connect(self, protocol: str, query: str = "") -> WebSocket:
        """A client's connection, served as the listener would."""
        endpoint = (
            WebSocketEndpoint(self.hub, LIMITS)
            if protocol == NATIVE
            else FunasrEndpoint(self.hub, LIMITS, GATEWAY, lambda path: pytest.fail("nothing is decoded"))
        )
        socket = WebSocket(Delay(random.Random(0), 0.001))
        self.sockets.append(socket)
        scope = {
            "type": "websocket",
            "state": {"tenant": Tenant(TenantId("default"), 9)},
            "query_string": query.encode(),
            "extensions": {TRANSPORT: socket},
        }
        events = iter([{"type": "websocket.connect"}])

        async def receive() -> Any:
            return next(events, None) or await socket.receive()

        async def send(event: Any) -> None:
            if event["type"] != "websocket.accept":
                await socket.send(event)

        self.tasks.append(asyncio.get_running_loop().create_task(endpoint(scope, receive, send)))
        return socket

    async def fill(self, protocol: str, query: str = "", mode: str = "2pass") -> WebSocket:
        """A connection that waits for room: its client has said more than the backlog holds."""
        socket = self.connect(protocol, query)
        if protocol == FUNASR:
            socket.transmit(json.dumps({"mode": mode, "is_speaking": True}))
        elif not query:
            socket.transmit(json.dumps({"type": "start", "mode": mode}))
        for _ in range(2 * int(LIMITS.max_backlog_s * 10)):
            socket.transmit(CHUNK)
        await asyncio.sleep(0.5)
        assert self.worker.chunks() < LIMITS.max_backlog_s * 10 + 1
        return socket

    def come_back(self, connected: dict[str, Any]) -> WebSocket:
        """A connection of a client that goes on with what it was told at first."""
        again = self.connect(NATIVE, f"session_id={connected['session_id']}")
        resume = {"type": "resume", "last_version": 0, "last_acked_sequence": None}
        again.transmit(json.dumps(resume | {name: connected[name] for name in ("session_id", "resume_token")}))
        return again

    async def empty_after(self) -> float:
        """How long it takes until no session is left."""
        begun_at = asyncio.get_running_loop().time()
        await self.hub.wait_empty()
        return asyncio.get_running_loop().time() - begun_at


async def heard(socket: WebSocket) -> tuple[list[dict[str, Any]], int]:
    """All that the client is told, and the close code."""
    said = []
    try:
        while True:
            said.append(json.loads(await socket.recv()))
    except Closed as end:
        return said, end.code


@asynccontextmanager
async def rig(door: Admission | None = None) -> AsyncIterator[Rig]:
    made = Rig(door)
    yield made
    await made.hub.wait_empty()
    await asyncio.wait_for(asyncio.gather(*made.tasks), 30)
    made.hub.check_integrity()
    made.bus.check_integrity()
    await made.bus.close()


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    _, loop = run_virtually(main)
    assert (loop.failures, loop.left) == ([], [])


@pytest.mark.parametrize(("protocol", "kept_s"), [(NATIVE, LIMITS.resume_window_s), (FUNASR, 0)])
def test_a_client_that_goes_is_seen_to_go_though_nothing_more_of_it_is_read(protocol: str, kept_s: float) -> None:
    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(protocol)
            socket.sever(0.0)
            await asyncio.sleep(1.1 * LAST_WORDS_S)
            assert not [live for live in made.hub.sessions() if live.connected]
            assert await made.empty_after() <= kept_s

    in_virtual_time(main)


def test_a_client_that_comes_back_while_its_last_connection_waits_goes_on_and_nothing_is_lost_or_doubled() -> None:
    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(NATIVE)
            connected = json.loads(await socket.recv())
            socket.sever(0.0)
            await asyncio.sleep(2 * LAST_WORDS_S)
            again = made.come_back(connected)
            resumed = json.loads(await again.recv())
            for _ in range(3):
                again.transmit(CHUNK)
            again.transmit(json.dumps({"type": "end"}))
            await asyncio.sleep(1)
            made.worker.settle_all()
            said, code = await heard(again)
            assert (said[-1]["type"], code) == ("closed", 1000)
            chunks = [record for record in made.worker.records if isinstance(record, AudioChunk)]
            assert [chunk.sequence for chunk in chunks] == list(range(resumed["next_sequence"] + 3))

    in_virtual_time(main)


def test_who_comes_back_again_and_again_while_nothing_has_room_brings_no_more_than_a_few_messages() -> None:
    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(NATIVE)
            connected = json.loads(await socket.recv())
            told = []
            for _ in range(3 * MOST_READERS):
                again = made.come_back(connected)
                again.transmit(CHUNK)
                told.append(json.loads(await again.recv()))
                await asyncio.sleep(0.1)
            assert [one["type"] for one in told].count("resumed") == MOST_READERS - 1
            refusals = [one for one in told if one["type"] == "error"]
            assert {(one["name"], one["retry_after_ms"] > 0) for one in refusals} == {("overloaded", True)}
            made.worker.hold = False
            made.worker.settle_all()
            await asyncio.sleep(1)
            last = made.come_back(connected)
            assert json.loads(await last.recv())["type"] == "resumed"
            last.transmit(json.dumps({"type": "end"}))
            said, code = await heard(last)
            assert (said[-1]["type"], code) == ("closed", 1000)
            for one in made.sockets:
                one.sever(0.0)

    in_virtual_time(main)


@pytest.mark.parametrize("protocol", [NATIVE, FUNASR])
def test_a_live_session_of_which_nothing_is_taken_ends_as_overloaded(protocol: str) -> None:
    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(protocol)
            (said, code), after_s = await asyncio.gather(heard(socket), made.empty_after())
            assert LIMITS.finalize_timeout_s - 1 <= after_s <= LIMITS.finalize_timeout_s + 1
            assert "overloaded" in json.dumps(said[-1])
            assert code == 1013

    in_virtual_time(main)


def test_time_in_which_the_gateway_stood_still_is_not_waited() -> None:
    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(NATIVE)
            for _ in range(3):
                loop = asyncio.get_running_loop()
                assert isinstance(loop, VirtualLoop)
                loop.jump(2 * LIMITS.finalize_timeout_s)
                await asyncio.sleep(1)
            socket.transmit(json.dumps({"type": "end"}))
            made.worker.settle_all()
            said, code = await heard(socket)
            assert (said[-1]["type"], code) == ("closed", 1000)

    in_virtual_time(main)


@pytest.mark.parametrize(("protocol", "query"), [(NATIVE, "mode=offline"), (NATIVE, ""), (FUNASR, "")])
def test_a_file_of_which_nothing_is_taken_waits_as_long_as_a_session_may_last_and_keeps_nobody_out(
    protocol: str, query: str
) -> None:
    """Whether its address says that it is one, or its start does."""

    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(protocol, query, "offline")
            await asyncio.sleep(10)
            newcomer = made.connect(NATIVE)
            assert json.loads(await newcomer.recv())["type"] == "connected"
            newcomer.sever(0.0)
            (said, code), after_s = await asyncio.gather(heard(socket), made.empty_after())
            assert LIMITS.max_session_s - 12 <= after_s <= LIMITS.max_session_s + 1
            assert "overloaded" in json.dumps(said[-1])
            assert code == 1013
            assert "slow_down" not in [message.get("type") for message in said]

    in_virtual_time(main)


def test_who_is_live_by_its_start_stands_still_as_a_live_one_whatever_its_address_said() -> None:
    async def main() -> None:
        async with rig() as made:
            socket = made.connect(NATIVE, "mode=offline")
            socket.transmit(json.dumps({"type": "start", "mode": "online"}))
            for _ in range(2 * int(LIMITS.max_backlog_s * 10)):
                socket.transmit(CHUNK)
            await asyncio.sleep(10)
            assert (await heard(made.connect(NATIVE)))[1] == 1013
            (said, code), after_s = await asyncio.gather(heard(socket), made.empty_after())
            assert after_s <= LIMITS.finalize_timeout_s
            assert (said[-1]["name"], code) == ("overloaded", 1013)
            assert "slow_down" in [message["type"] for message in said]

    in_virtual_time(main)


@pytest.mark.parametrize("protocol", [NATIVE, FUNASR])
def test_a_drain_ends_in_its_time_though_connections_wait(protocol: str) -> None:
    async def main() -> None:
        async with rig() as made:
            socket = await made.fill(protocol)
            begun_at = asyncio.get_running_loop().time()
            await drain(made.hub, GATEWAY)
            assert asyncio.get_running_loop().time() - begun_at <= GATEWAY.drain_timeout_s
            said, code = await heard(socket)
            assert "draining" in json.dumps(said[-1])
            assert code == 1012

    in_virtual_time(main)


def test_a_client_that_goes_while_its_utterance_is_finalized_is_seen_to_go() -> None:
    """What it says meanwhile is of the next one, and is not read before."""

    async def main() -> None:
        async with rig() as made:
            made.bus.attach_worker(lambda record: None)
            socket = made.connect(FUNASR)
            socket.transmit(json.dumps({"mode": "2pass", "is_speaking": True}))
            socket.transmit(CHUNK)
            socket.transmit(json.dumps({"is_speaking": False}))
            socket.transmit(CHUNK)
            await asyncio.sleep(0.5)
            assert len(made.hub) == 1
            socket.sever(0.0)
            assert await made.empty_after() <= 1.1 * LAST_WORDS_S

    in_virtual_time(main)
