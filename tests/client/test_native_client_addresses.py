"""Whom a native client of several addresses asks when its connection is gone, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamscribe.client import addresses
from streamscribe.client.addresses import Addresses
from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core.errors import SessionNotFound
from streamscribe.core.messages import Closed, Resumed
from streamscribe.wire.native_server import ClosedMessage
from tests.client.scripted_server import SESSION, Peer, Server, read_all, simple


async def frozen(peer: Peer) -> None:
    """Says nothing more, and closes nothing."""
    await peer.greet(durability="log")
    await peer.socket.wait_closed()


async def broken(peer: Peer) -> None:
    await peer.greet(durability="log")
    await peer.hear()
    peer.vanish()


async def alone(peer: Peer) -> None:
    """Its sessions do not outlive it."""
    await peer.greet(durability="process")
    await peer.hear()
    peer.vanish()


async def resumed(peer: Peer) -> None:
    assert (await peer.hear())["type"] == "resume"
    await peer.say(Resumed(SESSION, 0, 0), Closed("end", 0))


async def unknown(peer: Peer) -> None:
    await peer.hear()
    await peer.fail(SessionNotFound())


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """The address of a process that is frozen: its kernel takes connections, and nobody answers."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws/asr"
        for writer in held:
            writer.close()


@pytest.mark.parametrize("lost", [frozen, broken])
async def test_who_lost_its_connection_without_a_close_asks_the_next_server_first(lost) -> None:
    async with (
        Server(lost) as first,
        Server(resumed) as second,
        NativeClient([first.url, second.url], silence_timeout_s=1) as client,
    ):
        assert isinstance((await read_all(client))[-1], ClosedMessage)


async def test_a_session_that_does_not_outlive_its_server_is_asked_for_there_first() -> None:
    async with (
        Server(alone, resumed) as first,
        Server() as second,
        NativeClient([first.url, second.url]) as client,
    ):
        assert isinstance((await read_all(client))[-1], ClosedMessage)


async def test_a_server_that_does_not_know_the_session_is_not_believed_while_another_was_not_asked() -> None:
    async with (
        Server(broken, resumed) as first,
        Server(unknown) as second,
        NativeClient([first.url, second.url]) as client,
    ):
        assert isinstance((await read_all(client))[-1], ClosedMessage)


async def test_a_session_that_no_server_knows_is_over() -> None:
    async with (
        Server(broken, unknown) as first,
        Server(unknown) as second,
        NativeClient([first.url, second.url]) as client,
    ):
        with pytest.raises(ServerError, match="session_not_found"):
            await read_all(client)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "HASTY_TIMEOUT_S", 1.0)
    monkeypatch.setattr(addresses, "OPEN_TIMEOUT_S", 3600.0)


@pytest.mark.usefixtures("hasty")
async def test_a_newcomer_leaves_a_server_that_does_not_answer_while_there_are_others() -> None:
    async with deaf() as silent, Server(simple) as free, NativeClient([silent, free.url]) as client:
        await client.end()
        assert isinstance((await read_all(client))[-1], ClosedMessage)


@pytest.mark.usefixtures("hasty")
async def test_a_newcomer_leaves_a_server_that_does_not_greet_while_there_are_others() -> None:
    async def speechless(peer: Peer) -> None:
        await peer.socket.wait_closed()

    async with Server(speechless) as first, Server(simple) as free, NativeClient([first.url, free.url]) as client:
        await client.end()
        assert isinstance((await read_all(client))[-1], ClosedMessage)


@pytest.mark.usefixtures("hasty")
async def test_who_comes_back_leaves_a_server_that_does_not_answer_for_the_one_after_it() -> None:
    async with (
        Server(broken) as first,
        deaf() as silent,
        Server(resumed) as third,
        NativeClient([first.url, silent, third.url]) as client,
    ):
        assert isinstance((await read_all(client))[-1], ClosedMessage)


def test_an_address_that_is_given_twice_is_one() -> None:
    assert len(Addresses(["a", "b", "a"])) == 2


def test_an_address_alone_has_all_the_time_and_of_several_each_has_more_in_each_round() -> None:
    assert Addresses(["a"]).patience_s() == addresses.OPEN_TIMEOUT_S
    several = Addresses(["a", "b"])
    asked = []
    for _ in range(8):
        asked.append((several.current, several.patience_s()))
        several.move_on()
    assert [url for url, _ in asked] == ["a", "b"] * 4
    assert [seconds for _, seconds in asked] == [2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 10.0, 10.0]
    several.begin()
    assert several.patience_s() == 2.0
    assert several.patience_s(last=True) == addresses.OPEN_TIMEOUT_S
