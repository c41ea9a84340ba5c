"""The native client at a real gateway, over a network that breaks."""

import asyncio

import pytest

from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core.errors import ModelUnavailable, Overloaded
from streamscribe.core.records import Failed
from streamscribe.wire.native_server import ClosedMessage, ResultMessage
from tests.gateway.rig import running

CHUNKS = 60


@pytest.mark.parametrize("broken_after", [(), (0,), (3, 4, 30), (CHUNKS - 1,)])
async def test_law_3_every_final_comes_once_however_often_the_connection_breaks(broken_after: tuple[int, ...]) -> None:
    finals: list[str] = []
    async with running() as gateway, NativeClient(gateway.url()) as client:

        async def speak() -> None:
            for number in range(CHUNKS):
                await client.send(bytes([number]) + bytes(319))
                if number in broken_after:
                    while gateway.worker.chunks() == 0:  # a session that has not begun cannot be resumed
                        await asyncio.sleep(0.001)
                    client.drop_connection()
            await client.end()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak())
            async for message in client:
                if isinstance(message, ResultMessage):
                    finals.append(message.text)
        assert isinstance(message, ClosedMessage)
        assert gateway.worker.chunks() == CHUNKS
    assert finals == [str(number) for number in range(CHUNKS)]


async def test_a_session_that_the_server_ends_is_not_resumed() -> None:
    async with running() as gateway, NativeClient(gateway.url()) as client:
        await client.send(bytes(320))
        async for message in client:
            if isinstance(message, ResultMessage):
                break
        gateway.hub.kill_all(Overloaded())
        with pytest.raises(ServerError, match="overloaded"):
            [message async for message in client]


async def test_a_session_that_failed_behind_a_dead_connection_tells_its_own_error_to_who_comes_back() -> None:
    async with running() as gateway, NativeClient(gateway.url()) as client:
        await client.send(bytes(320))
        async for message in client:
            if isinstance(message, ResultMessage):
                break
        client._socket.transport.pause_reading()  # type: ignore[union-attr,attr-defined]
        (live,) = gateway.hub.sessions()
        gateway.bus.emit(Failed(live.bus_id, ModelUnavailable()))
        client.drop_connection()
        with pytest.raises(ServerError, match="model_unavailable"):
            [message async for message in client]
