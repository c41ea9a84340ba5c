"""A link over a real socket pair: what a peer may send, and what it cannot do."""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamscribe.bus.local import link as module
from streamscribe.bus.local.link import HIGH_WATER_BYTES, MAX_PAYLOAD_BYTES, Kind, Link
from streamscribe.core.errors import BadRequest, InternalError, Overloaded, SlowReader, TooLarge

HEADER = struct.Struct(">IB")


class Frames:
    """Collects payloads."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self._arrived = asyncio.Event()

    def __call__(self, payload: memoryview) -> None:
        self.items.append(bytes(payload))
        self._arrived.set()

    async def wait_for(self, count: int) -> list[bytes]:
        while len(self.items) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.items


@asynccontextmanager
async def a_pair() -> AsyncIterator[tuple[Link, Link]]:
    ours, theirs = socket.socketpair()
    one, other = await Link.open(ours), await Link.open(theirs)
    try:
        yield one, other
    finally:
        one.close()
        other.close()
        await asyncio.gather(one.closed, other.closed)


@asynccontextmanager
async def a_raw_peer() -> AsyncIterator[tuple[Link, socket.socket]]:
    """A link, and the socket at its other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = await Link.open(ours)
    with theirs:
        yield link, theirs
    link.close(Overloaded())
    await link.closed


def frame(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


async def test_frames_of_every_size_arrive_whole_and_in_order_both_ways() -> None:
    sizes = [0, 1, 3200, 2**18 - 5, 2**18, 2**18 + 1, 3_000_000, 7, 0, 3200]
    sent = [random.Random(size).randbytes(size) for size in sizes]
    async with a_pair() as ends:
        for here, there in (ends, ends[::-1]):
            there.on(Kind.CONTROL, got := Frames())
            for payload in sent:
                here.send(Kind.CONTROL, payload)
            assert await got.wait_for(len(sent)) == sent


async def test_however_the_bytes_are_cut_the_frames_are_the_same() -> None:
    rng = random.Random(3)
    sent = [rng.randbytes(rng.choice([0, 1, 2, 50, 300])) for _ in range(40)]
    stream = b"".join(frame(Kind.CONTROL, payload) for payload in sent)
    async with a_raw_peer() as (link, peer):
        link.on(Kind.CONTROL, got := Frames())
        while stream:
            size = rng.choice([1, 2, 3, 7, 100])
            await asyncio.get_running_loop().sock_sendall(peer, stream[:size])
            stream = stream[size:]
            await asyncio.sleep(0)
        assert await got.wait_for(len(sent)) == sent


async def test_reading_waits_at_a_frame_that_nobody_takes_yet() -> None:
    async with a_pair() as (here, there):
        there.on(Kind.CONTROL, control := Frames())
        here.send(Kind.CONTROL, b"1")
        here.send(Kind.RECORD, b"2")
        here.send(Kind.CONTROL, b"3")
        await control.wait_for(1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert control.items == [b"1"]
        there.on(Kind.RECORD, records := Frames())
        assert await records.wait_for(1) == [b"2"]
        assert await control.wait_for(2) == [b"1", b"3"]


@pytest.mark.parametrize(
    "garbage",
    [frame(0, b""), frame(9, b"x"), HEADER.pack(MAX_PAYLOAD_BYTES + 1, Kind.RECORD), b"GET / HTTP/1.1\r\n\r\n"],
)
async def test_bytes_that_are_no_frames_end_the_link_with_a_typed_error(garbage: bytes) -> None:
    async with a_raw_peer() as (link, peer):
        link.on(Kind.RECORD, got := Frames())
        peer.send(frame(Kind.RECORD, b"fine") + garbage + frame(Kind.RECORD, b"never"))
        assert isinstance(await link.closed, BadRequest)
        assert got.items == [b"fine"]
        assert peer.recv(1) == b""


async def test_an_error_of_a_handler_ends_the_link_with_it() -> None:
    def refuse(payload: memoryview) -> None:
        raise Overloaded("not now")

    async with a_pair() as (here, there):
        there.on(Kind.CONTROL, refuse)
        here.send(Kind.CONTROL, b"")
        error = await there.closed
        assert isinstance(error, Overloaded)
        assert await here.closed is None


async def test_a_defect_of_a_handler_ends_the_link_and_is_told_to_the_loop() -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    def broken(payload: memoryview) -> None:
        raise KeyError("a defect")

    async with a_pair() as (here, there):
        there.on(Kind.CONTROL, broken)
        here.send(Kind.CONTROL, b"")
        assert isinstance(await there.closed, InternalError)
    assert isinstance(told[0]["exception"], KeyError)


@pytest.mark.parametrize("rest", [b"", b"\x00", HEADER.pack(5, Kind.RECORD) + b"cut"])
async def test_a_peer_that_dies_in_the_middle_of_anything_closes_the_link_and_leaves_no_error(rest: bytes) -> None:
    async with a_raw_peer() as (link, peer):
        link.on(Kind.RECORD, got := Frames())
        peer.send(frame(Kind.RECORD, b"fine") + rest)
        peer.close()
        assert await link.closed is None
        assert got.items == [b"fine"]
        assert not link.writable
        link.send(Kind.RECORD, b"dropped")


async def test_closing_sends_what_was_said_before() -> None:
    async with a_pair() as (here, there):
        there.on(Kind.EVENT, got := Frames())
        for _ in range(20):
            here.send(Kind.EVENT, bytes(100_000))
        here.close()
        here.send(Kind.EVENT, b"too late")
        assert await there.closed is None
        assert [len(payload) for payload in got.items] == [100_000] * 20


async def test_a_peer_that_does_not_read_is_told_by_writable_and_reading_on_makes_it_writable_again() -> None:
    async with a_raw_peer() as (link, peer):
        again = asyncio.Event()
        link.on_writable = again.set
        sent = 0
        while link.writable:
            link.send(Kind.RECORD, bytes(3200))
            sent += 3200 + HEADER.size
        assert link.unsent_bytes <= HIGH_WATER_BYTES + 3200 + HEADER.size
        while not again.is_set():
            await asyncio.get_running_loop().sock_recv(peer, 2**16)
        assert link.writable


async def test_a_peer_that_leaves_too_much_unread_loses_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNSENT_BYTES", 2**20)
    async with a_raw_peer() as (link, _):
        for _ in range(40):
            link.send(Kind.CONTROL, bytes(2**16))
        assert isinstance(await link.closed, SlowReader)


async def test_a_frame_over_the_bound_is_the_senders_error_and_costs_the_link_nothing() -> None:
    async with a_pair() as (here, there):
        there.on(Kind.CONTROL, got := Frames())
        with pytest.raises(TooLarge, match="a frame may have"):
            here.send(Kind.CONTROL, bytes(MAX_PAYLOAD_BYTES + 1))
        here.send(Kind.CONTROL, b"fine")
        assert await got.wait_for(1) == [b"fine"]
