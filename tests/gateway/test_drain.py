"""The end of a gateway: what each client hears, and in which order."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from streamscribe.core.records import AudioEnded, Recognised, Record
from streamscribe.gateway import drain as drain_module
from streamscribe.gateway.drain import done_before, drain, stop_signals
from streamscribe.settings import GatewaySettings
from tests.gateway.rig import Gateway, closing, result, running, told

CHUNK = bytes([7]) + bytes(319)
END = json.dumps({"type": "end"})


async def ready(gateway: Gateway) -> int:
    async with httpx.AsyncClient(timeout=None) as client:
        return (await client.get(f"http://127.0.0.1:{gateway.port}/readyz")).status_code


async def test_a_drain_is_unready_refuses_the_new_and_lets_the_old_finish() -> None:
    settings = GatewaySettings(drain_timeout_s=10)
    async with running(gateway=settings) as gateway, gateway.connect() as socket:
        await told(socket, "connected")
        assert await ready(gateway) == 200
        draining = asyncio.create_task(drain(gateway.hub, settings))
        gone = await told(socket, "go_away")
        assert 500 <= gone["retry_after_ms"] <= 5000
        assert gone["deadline_ms"] == 10_000
        assert await ready(gateway) == 503
        with pytest.raises(InvalidStatus) as refused:
            async with gateway.connect():
                pass
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["Retry-After"]) >= 1
        await socket.send(CHUNK)
        assert (await told(socket, "result"))["text"] == "7"
        await socket.send(END)
        assert (await closing(socket))[0] == 1000
        async with asyncio.timeout(30):
            await draining


async def test_sessions_that_stay_past_the_deadline_are_closed_1012() -> None:
    settings = GatewaySettings(drain_timeout_s=0.1)
    async with running(gateway=settings) as gateway, gateway.connect() as socket:
        await socket.send(CHUNK)
        await told(socket, "result")
        await drain(gateway.hub, settings)
        assert (await told(socket, "error"))["name"] == "draining"
        assert (await closing(socket))[0] == 1012
        assert len(gateway.hub) == 0


async def test_what_was_said_before_the_deadline_gets_its_final_whether_the_client_knows_go_away_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_module, "FINALS_SHARE", 0.99)  # however busy this machine is
    settings = GatewaySettings(drain_timeout_s=30)
    for path, config in (("/ws/asr", None), ("/", json.dumps({"mode": "2pass", "is_speaking": True}))):
        async with running(gateway=settings) as gateway, gateway.connect(path) as socket:

            def finish(record: Record, gateway: Gateway = gateway) -> None:
                if isinstance(record, AudioEnded):  # only then does the open segment get its final
                    gateway.bus.emit(Recognised(record.session_id, result(9, 9, "last words", final=True)))
                gateway.worker.take(record)

            gateway.bus.attach_worker(finish)
            if config is not None:
                await socket.send(config)
            await socket.send(CHUNK)
            said = [json.loads(await socket.recv())]
            await drain(gateway.hub, settings)
            with suppress(ConnectionClosedError):
                async for message in socket:
                    said.append(json.loads(message))  # noqa: PERF401  what came before the close counts
        assert socket.close_code == 1012
        assert "last words" in [message.get("text", "").strip() for message in said]
        assert "draining" in json.dumps(said[-1])


async def test_a_session_that_is_here_can_be_resumed_while_draining() -> None:
    settings = GatewaySettings(drain_timeout_s=10)
    async with running(gateway=settings) as gateway:
        async with gateway.connect() as socket:
            connected = await told(socket, "connected")
            await socket.send(CHUNK)
            await told(socket, "result")
        draining = asyncio.create_task(drain(gateway.hub, settings))
        await asyncio.sleep(0)
        async with gateway.connect(f"/ws/asr?session_id={connected['session_id']}") as again:
            resume = {"type": "resume", "last_version": 0, "last_acked_sequence": None}
            resume |= {name: connected[name] for name in ("session_id", "resume_token")}
            await again.send(json.dumps(resume))
            assert (await told(again, "result"))["text"] == "7"
            await again.send(END)
            assert (await closing(again))[0] == 1000
        await draining


async def test_leaving_the_listener_under_streaming_clients_loses_no_last_word() -> None:
    """A socket closed with unread audio in it would reset, and take the error and the close code with it."""
    settings = GatewaySettings(drain_timeout_s=0.1)
    async with running(gateway=settings) as gateway:
        sockets = [await gateway.connect() for _ in range(10)]

        async def stream(number: int) -> tuple[int, str]:
            socket = sockets[number]

            async def flood() -> None:
                while True:
                    await socket.send(CHUNK)
                    await asyncio.sleep(0)

            task = asyncio.create_task(flood())
            code = await closing(socket)
            task.cancel()
            await asyncio.wait([task])
            return code

        streams = [asyncio.create_task(stream(number)) for number in range(10)]
        await asyncio.sleep(0.1)
        await drain(gateway.hub, settings)
    for task in streams:
        assert (await task)[0] == 1012


@pytest.mark.parametrize("stopped", [True, False])
async def test_work_that_nobody_waits_for_any_more_does_not_go_on(stopped: bool) -> None:
    stop, begun, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            over.set()

    waiting = asyncio.ensure_future(done_before(stop, work()))
    await begun.wait()
    if stopped:
        stop.set()
    else:
        waiting.cancel()
    await asyncio.wait([waiting])
    async with asyncio.timeout(5):
        await over.wait()
    assert waiting.cancelled() or not waiting.result()


@pytest.fixture
def handlers() -> Iterator[Callable[[], list[Any]]]:
    """Tells who handles the signals that end a process; they are put back afterwards."""
    numbers = signal.SIGTERM, signal.SIGINT

    def asked() -> list[Any]:
        return [signal.getsignal(number) for number in numbers]

    before = asked()
    yield asked
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


async def test_a_first_signal_asks_for_the_drain_and_a_second_one_ends_the_process_until_the_very_end(
    handlers: Callable[[], list[Any]],
) -> None:
    async with stop_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(30):
            await stop.wait()
    assert handlers() == [signal.SIG_DFL, signal.SIG_DFL]


async def test_where_no_signal_came_they_are_handled_as_before(handlers: Callable[[], list[Any]]) -> None:
    before = handlers()
    async with stop_signals():
        assert handlers() != before
    assert handlers() == before
