"""What a client did in time, while its gateway stood still, counts when that wakes; in virtual time."""

import asyncio
import json
from typing import Any, cast

import pytest

from streamscribe.core.errors import StoreUnavailable, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.session_timers import AWAKE_S, MAX_PUT_OFF
from streamscribe.gateway import unclaimed
from streamscribe.gateway.awake import within
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.unclaimed import Unclaimed
from streamscribe.ports import MovingBus, SessionStore
from tests.gateway.test_waiting_for_room import CHUNK, NATIVE, Rig, heard, in_virtual_time, rig
from tests.sim.clock import VirtualLoop
from tests.sim.network import WebSocket

STOPPED_S = 300.0
LOOK_S = 5.0


def now() -> float:
    return asyncio.get_running_loop().time()


def stand_still() -> None:
    """As SIGSTOP and SIGCONT: time has gone by, and no timer ran."""
    cast(VirtualLoop, asyncio.get_running_loop()).jump(STOPPED_S)


async def wait_in_vain() -> None:
    async with within(2.0):
        await asyncio.Event().wait()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_wait_ends_in_its_time_or_where_nobody_could_look_then_a_while_after(stopped: bool) -> None:
    async def main() -> None:
        began = now()
        waiting = asyncio.ensure_future(wait_in_vain())
        await asyncio.sleep(1.0)
        if stopped:
            stand_still()
        with pytest.raises(TimeoutError):
            await waiting
        assert now() - began == pytest.approx(1.0 + STOPPED_S + AWAKE_S if stopped else 2.0)

    in_virtual_time(main)


def test_what_comes_in_time_ends_no_wait_and_a_task_that_is_cancelled_in_it_ends() -> None:
    async def main() -> None:
        async with within(2.0):
            await asyncio.sleep(1.9)
        waiting = asyncio.ensure_future(wait_in_vain())
        await asyncio.sleep(1.0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    in_virtual_time(main)


def test_who_is_always_late_ends_a_wait_all_the_same() -> None:
    async def main() -> None:
        waiting, stops = asyncio.ensure_future(wait_in_vain()), 0
        await asyncio.sleep(1.0)
        while not waiting.done() and stops < 100:
            stand_still()
            stops += 1
            await asyncio.sleep(0.1)
        assert isinstance(waiting.exception(), TimeoutError)
        assert stops == MAX_PUT_OFF + 1

    in_virtual_time(main)


async def unread(made: Rig) -> WebSocket:
    """A connection whose client has stopped reading, and has something to read."""
    socket = made.connect(NATIVE)
    socket.transmit(json.dumps({"type": "start"}))
    await asyncio.sleep(1.0)
    socket.writable.clear()
    for _ in range(20):
        socket.transmit(CHUNK)
    await asyncio.sleep(1.0)
    return socket


@pytest.mark.parametrize("stopped", [False, True])
def test_a_client_that_reads_while_its_gateway_stands_still_is_no_slow_reader(stopped: bool) -> None:
    async def main() -> None:
        async with rig() as made:
            made.worker.hold = False
            socket = await unread(made)
            if stopped:
                stand_still()
                asyncio.get_running_loop().call_later(0.001, socket.writable.set)
                await asyncio.sleep(1.0)
                socket.transmit(json.dumps({"type": "end"}))
            said, code = await heard(socket)
            assert code == (1000 if stopped else 4408)
            assert (said[-1]["type"] == "closed") == stopped

    in_virtual_time(main)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_client_that_said_which_session_it_resumes_while_its_gateway_stood_still_is_heard(stopped: bool) -> None:
    async def main() -> None:
        async with rig() as made:
            made.worker.hold = False
            first = made.connect(NATIVE, "session_id=a")
            first.transmit(CHUNK)
            connected = json.loads(await first.recv())
            again = made.connect(NATIVE, "session_id=a")
            await asyncio.sleep(1.0)
            first.sever(0.0)
            if stopped:
                stand_still()
                resume = {"type": "resume", "last_version": 0, "last_acked_sequence": None}
                again.transmit(json.dumps(resume | {name: connected[name] for name in ("session_id", "resume_token")}))
                again.transmit(json.dumps({"type": "end"}))
            said, code = await heard(again)
            assert (said[0]["type"], code) == (("resumed", 1000) if stopped else ("error", 4408))

    in_virtual_time(main)


class Waiting:
    """A session that no worker has, at a store that is away."""

    bus_id = SessionId("s")

    def __init__(self) -> None:
        self.error: StreamScribeError | None = None
        self.away = True

    def break_down(self, error: StreamScribeError) -> None:
        self.error = error

    def stand(self, session_id: SessionId, mark: bytes) -> None:
        return None

    async def check(self) -> None:
        if self.away:
            raise StoreUnavailable


@pytest.mark.parametrize("stopped", [False, True])
def test_a_session_waits_for_a_store_that_is_away_and_not_for_as_long_as_its_gateway_stood_still(stopped: bool) -> None:
    async def main() -> None:
        waiting: Any = Waiting()
        here = Unclaimed(cast(MovingBus, waiting), cast(SessionStore, waiting), LOOK_S)
        here.begin(cast(LiveSession, waiting))
        looks = 0
        for _ in range(4):
            looks += await looked(here)
        if stopped:
            stand_still()
        while waiting.error is None:
            looks += await looked(here)
        assert isinstance(waiting.error, StoreUnavailable)
        assert looks * LOOK_S == pytest.approx(unclaimed.PATIENCE_S, abs=2 * LOOK_S)

    async def looked(here: Unclaimed) -> int:
        await asyncio.sleep(LOOK_S)
        await here.look()
        return 1

    in_virtual_time(main)
