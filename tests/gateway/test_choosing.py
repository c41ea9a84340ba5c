"""A start brings other options than the address: the load is judged and counted by what it says, at whichever door."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from streamscribe.bootstrap.cluster.door import ClusterDoor, WorkersDoor
from streamscribe.bootstrap.cluster.health import Health
from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.core.cluster_load import WorkerLoad
from streamscribe.core.load import ModelLoad
from streamscribe.gateway.door import Admission
from streamscribe.observe.load import LoadControl
from streamscribe.settings import LimitSettings
from tests.gateway.test_hub import Door
from tests.gateway.test_waiting_for_room import CHUNK, FUNASR, NATIVE, Rig, heard, in_virtual_time, rig
from tests.sim.network import WebSocket

VOICES = 3
"""So many are let in."""
LIMITS = LimitSettings(max_newcomers=VOICES)


def one_process() -> Admission:
    return LoadControl(LIMITS, lambda reason: None, asyncio.get_running_loop().time)


def fleet() -> Admission:
    door = FleetDoor(LIMITS, lambda reason: None, asyncio.get_running_loop().time)
    door.join(0)
    return door


def cluster() -> Admission:
    clock = asyncio.get_running_loop().time
    workers = WorkersDoor(LIMITS, 0, lambda one: 0, lambda reason: None, clock)
    workers.heard({"worker": WorkerLoad(frozenset({0}), {}, (ModelLoad("vad", 0.1, 8, 0.01),))})
    load = LoadControl(LimitSettings(), lambda reason: None, clock)
    return ClusterDoor(load, workers, Health({}, clock), lambda reason: None, without_store=True)


Made = Callable[[], Admission]
DOORS = pytest.mark.parametrize("door", [one_process, fleet, cluster])


async def started(made: Rig, protocol: str, mode: str, query: str = "", channels: int = 1) -> WebSocket:
    """A client that has said what it is."""
    socket = made.connect(protocol, query)
    if protocol == NATIVE:
        socket.transmit(json.dumps({"type": "start", "mode": mode, "audio": {"channels": channels}}))
    else:
        socket.transmit(json.dumps({"mode": mode, "is_speaking": True}))
        socket.transmit(CHUNK)
    await asyncio.sleep(0.01)
    return socket


async def fill(made: Rig) -> None:
    """Lets in as many voices as there may be."""
    for _ in range(VOICES):
        await started(made, NATIVE, "online")
    assert len(made.hub) == VOICES


async def refusal(socket: WebSocket) -> tuple[Any, int]:
    """The code of the error that a client is told last, and that of the close."""
    said, code = await heard(socket)
    return said[-1].get("name") or said[-1]["error"]["code"], code


def behind(door: Made, scene: Callable[[Rig], Any]) -> None:
    async def main() -> None:
        async with rig(door()) as made:
            made.worker.hold = False
            await scene(made)
            for socket in made.sockets:
                socket.sever(0.0)

    in_virtual_time(main)


@DOORS
@pytest.mark.parametrize("protocol", [NATIVE, FUNASR])
def test_who_is_a_file_by_its_start_takes_no_live_session_its_place(door: Made, protocol: str) -> None:
    async def scene(made: Rig) -> None:
        for _ in range(VOICES + 1):
            await started(made, protocol, "offline")
        assert len(made.hub) == VOICES + 1
        for _ in range(VOICES):
            await started(made, protocol, "2pass")
        assert len(made.hub) == 2 * VOICES + 1
        assert await refusal(await started(made, NATIVE, "2pass")) == ("overloaded", 1013)

    behind(door, scene)


@DOORS
def test_each_channel_that_a_start_brings_is_a_voice(door: Made) -> None:
    async def scene(made: Rig) -> None:
        await started(made, NATIVE, "online", channels=2)
        assert await refusal(await started(made, NATIVE, "online", channels=2)) == ("overloaded", 1013)
        await started(made, NATIVE, "online")
        assert len(made.hub) == 2
        assert await refusal(await started(made, NATIVE, "online")) == ("overloaded", 1013)

    behind(door, scene)


@DOORS
def test_who_is_live_by_its_start_is_let_in_as_a_live_one_whatever_its_address_said(door: Made) -> None:
    async def scene(made: Rig) -> None:
        await fill(made)
        assert await refusal(await started(made, NATIVE, "online", "mode=offline")) == ("overloaded", 1013)
        assert len(made.hub) == VOICES
        assert not made.worker.records
        refused = made.metrics.registry.get_sample_value
        assert refused("streamscribe_refused_sessions_total", {"code": "overloaded"}) == 1
        assert refused("streamscribe_failed_sessions_total", {"code": "overloaded"}) is None
        made.hub.sessions()[0].abandon()
        await started(made, NATIVE, "online", "mode=offline")
        assert len(made.hub) == VOICES

    behind(door, scene)


@DOORS
def test_no_load_keeps_out_a_file_of_funasrs_whose_address_cannot_say_what_it_is(door: Made) -> None:
    async def scene(made: Rig) -> None:
        await fill(made)
        socket = await started(made, FUNASR, "offline")
        assert len(made.hub) == VOICES + 1
        socket.transmit(json.dumps({"is_speaking": False}))
        assert json.loads(await socket.recv())["is_final"]
        socket.transmit(json.dumps({"mode": "2pass", "is_speaking": True}))
        socket.transmit(CHUNK)  # the next utterance is live
        assert await refusal(socket) == ("overloaded", 1013)
        assert await refusal(await started(made, FUNASR, "2pass")) == ("overloaded", 1013)
        assert len(made.hub) == VOICES

    behind(door, scene)


def test_a_start_that_comes_too_late_changes_nothing_at_the_door_and_who_goes_is_counted_out_as_it_was_in() -> None:
    door = Door()

    async def scene(made: Rig) -> None:
        socket = await started(made, NATIVE, "offline")
        assert [(one.live, one.audio.channels) for one in door.inside] == [(False, 1)]
        socket.transmit(json.dumps({"type": "start", "audio": {"channels": 2}}))
        await asyncio.sleep(0.01)
        assert [(one.live, one.audio.channels) for one in door.inside] == [(True, 2)]
        socket.transmit(CHUNK)
        await asyncio.sleep(0.01)
        door.open = False
        socket.transmit(json.dumps({"type": "start", "mode": "offline"}))
        await asyncio.sleep(0.01)
        assert [(one.live, one.audio.channels) for one in door.inside] == [(True, 2)]
        assert len(made.hub) == 1
        door.open = True

    behind(lambda: door, scene)
    assert door.inside == []
