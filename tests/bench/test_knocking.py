"""How long newcomers wait for a refusal, those too who are told nothing."""

import asyncio
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import pytest

from streamscribe.bench import cluster_load, knocking, load
from streamscribe.bench.chaos_voice import Script

HANDSHAKE = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
CLOSE = b"\x88\x00"
TIMEOUT_S = 0.5


def told(message: bytes) -> bytes:
    return bytes([0x81, len(message)]) + message


CONNECTED = told(b'{"type":"connected"}')
BUSY = told(b'{"type":"error","code":503,"retry_after_ms":1000}')
GONE = told(b'{"type":"error","code":500}')


@asynccontextmanager
async def answering(*answers: bytes):
    """The address of a server that says this to each, and closes where that ends with a close."""
    held = set()

    async def meet(reader, writer):
        held.add(writer)
        await reader.readuntil(b"\r\n\r\n")
        for answer in answers:
            writer.write(answer)
        if not answers or answers[-1] == CLOSE:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in held:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    for module in (load, knocking):
        monkeypatch.setattr(module, "OPEN_TIMEOUT_S", TIMEOUT_S)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([HANDSHAKE], id="nothing is ever said"),
        pytest.param([b"HTTP/1.1 "], id="not even the handshake ends"),
        pytest.param([], id="the connection is closed"),
        pytest.param([HANDSHAKE, CLOSE], id="it is closed without a word"),
        pytest.param([HANDSHAKE, GONE, CLOSE], id="an error does not say when to come back"),
    ],
)
async def test_who_is_not_told_when_to_come_back_has_waited_the_longest_time(answers):
    async with answering(*answers) as url:
        waits_s = await knocking.knock(url, 0.01)
    assert waits_s == [TIMEOUT_S]


@pytest.mark.parametrize("last", [[], [CLOSE]], ids=["who is left on the line", "who is closed"])
async def test_who_is_told_when_to_come_back_has_waited_until_then(last):
    async with answering(HANDSHAKE, BUSY, *last) as url:
        (wait_s,) = await knocking.knock(url, 0.01)
    assert 0 < wait_s < TIMEOUT_S


async def test_who_is_let_in_has_no_refusal_to_wait_for():
    async with answering(HANDSHAKE, CONNECTED) as url:
        assert await knocking.knock(url, 0.01) == []


@pytest.mark.parametrize(("answers", "slowest_s"), [([HANDSHAKE, BUSY, CLOSE], None), ([HANDSHAKE], TIMEOUT_S)])
async def test_refusals_of_the_crowd_are_timed_too(monkeypatch, answers, slowest_s):
    async def no_memory(server):
        return 0.0

    async def nobody(url, seconds):
        return []

    monkeypatch.setattr(cluster_load, "memory_bytes", no_memory)
    monkeypatch.setattr(cluster_load, "SETTLE_S", 0.1)
    monkeypatch.setattr(cluster_load, "knock", nobody)
    async with answering(*answers) as url:
        server = SimpleNamespace(address=SimpleNamespace(websocket=url))
        crowd = await cluster_load._crowd(server, [Script.of(1, 1.0, 0.2, 0.2)], 50.0, seconds=0.1)
    assert len(crowd.refusals_s) == crowd.refused > 0
    assert slowest_s is None or set(crowd.refusals_s) == {slowest_s}
