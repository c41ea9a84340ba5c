"""Broken connections at a whole server: no final is lost, none comes twice, and nobody resumes what is not theirs."""

import asyncio
import json
import random
from collections.abc import Iterator

import pytest
from websockets.asyncio.client import ClientConnection, connect

from streamscribe.client.errors import ServerError
from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.core.options import Mode
from streamscribe.wire.frames import pack_frame
from streamscribe.wire.native_server import ClosedMessage, ErrorMessage, ResultMessage, ServerWire
from tests.service.conftest import EVERYBODY, Keyed
from tests.service.kit import (
    END,
    Final,
    cut,
    ending,
    figure,
    finals_of,
    noise_speech,
    session,
    told,
    until_no_session,
)

pytestmark = pytest.mark.timeout(120)

PACKET_BYTES = 6400
SPEECH = noise_speech(1000)
PACKETS = list(cut(SPEECH, PACKET_BYTES))


@pytest.fixture(scope="module")
def slow_server() -> Iterator[RunningServer]:
    """A server whose model takes its time, so that there is something to break during finalization."""
    with LocalServer(["--profile", "fake", "--set", "model.fake_cost_ms=60", *EVERYBODY]) as running:
        yield running


@pytest.fixture(scope="module")
def hasty_server() -> Iterator[RunningServer]:
    """A server that waits next to no time for clients to come back."""
    with LocalServer(["--profile", "fake", "--set", "limits.resume_window_s=0.01", *EVERYBODY]) as running:
        yield running


async def alone(server: RunningServer, pcm: bytes = SPEECH, *, key: str | None = None) -> list[Final]:
    finals = finals_of(await session(server.address.websocket, cut(pcm, 32_000), mode=Mode.OFFLINE, key=key))
    assert len(finals) == 3
    return finals


async def broken_session(url: str, pcm: bytes, seed: int) -> list[ServerWire]:
    """A session whose connection breaks twice while it speaks, behind its end, and at some of its results."""
    chance = random.Random(seed)
    packets = list(cut(pcm, PACKET_BYTES))
    breaks = set(chance.sample(range(2, len(packets)), 2))  # resumable once audio has come
    heard: list[ServerWire] = []
    async with NativeClient(url) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for number, packet in enumerate(packets):
                await client.send(packet)
                await asyncio.sleep(0.01)
                if number in breaks:
                    client.drop_connection()
            await client.end()
            if chance.random() < 0.5:
                client.drop_connection()

        tasks.create_task(speak())
        async for message in client:
            heard.append(message)
            if isinstance(message, ResultMessage) and chance.random() < 0.3:
                client.drop_connection()
    return heard


async def test_law_3_connections_broken_anywhere_lose_and_double_no_final(slow_server: RunningServer) -> None:
    url = slow_server.address.websocket
    speech = [noise_speech(2000 + number) for number in range(12)]
    expected = [await alone(slow_server, pcm) for pcm in speech]
    heard = await asyncio.gather(*(broken_session(url, pcm, number) for number, pcm in enumerate(speech)))
    for messages, finals in zip(heard, expected, strict=True):
        assert finals_of(messages) == finals
        assert isinstance(messages[-1], ClosedMessage)
        assert not any(isinstance(message, ErrorMessage) for message in messages)
    await until_no_session(slow_server)


class Raw:
    """A client that does as docs/protocol.md says, by hand."""

    def __init__(self, server: RunningServer, key: str = "") -> None:
        self.url = server.address.websocket
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def open(self, query: str = "framing=sequenced") -> connect:
        return connect(f"{self.url}?{query}", compression=None, additional_headers=self.headers)

    async def say(self, socket: ClientConnection, packets: range) -> None:
        for number in packets:
            await socket.send(pack_frame(number, PACKETS[number]))

    async def resume(self, socket: ClientConnection, connected: dict[str, object], **claims: object) -> None:
        asked = {name: connected[name] for name in ("session_id", "resume_token")}
        asked |= {"last_version": 0, "last_acked_sequence": None, "framing": "sequenced"} | claims
        await socket.send(json.dumps({"type": "resume"} | asked))


async def test_a_resume_tells_only_what_came_after_the_version_named(fake_server: RunningServer) -> None:
    client = Raw(fake_server)
    finals, version, acked = [], 0, -1
    async with client.open() as socket:
        connected = await told(socket, "connected")
        await client.say(socket, range(len(PACKETS)))
        while not finals:
            message = json.loads(await socket.recv())
            acked = message["sequence"] if message["type"] == "ack" else acked
            version = message.get("version", version)
            if message.get("is_final"):
                finals.append(message)
        socket.transport.abort()
    async with client.open(f"session_id={connected['session_id']}") as socket:
        await client.resume(socket, connected, last_version=version, last_acked_sequence=acked)
        resumed = json.loads(await socket.recv())
        assert (resumed["type"], resumed["last_version"]) == ("resumed", version)
        assert acked < resumed["next_sequence"] <= len(PACKETS)
        await client.say(socket, range(resumed["next_sequence"], len(PACKETS)))
        await socket.send(END)
        said, code, _ = await ending(socket)
    results = [message for message in said if message["type"] == "result"]
    assert all(message["version"] > version for message in results)
    finals += [message for message in results if message["is_final"]]
    assert [message["text"] for message in finals] == [final.text for final in await alone(fake_server)]
    assert (said[-1]["type"], code) == ("closed", 1000)


async def test_what_ended_while_the_client_was_away_is_told_when_it_comes_back(fake_server: RunningServer) -> None:
    client = Raw(fake_server)
    streams = await figure(fake_server, "funasr_active_streams")
    async with client.open() as socket:
        connected = await told(socket, "connected")
        await client.say(socket, range(len(PACKETS)))
        await socket.send(END)
        while (await told(socket, "ack"))["sequence"] < len(PACKETS) - 1:
            pass
        await socket.ping()  # answered when the end before it has been read
        socket.transport.abort()
    while await figure(fake_server, "funasr_active_streams") > streams:
        await asyncio.sleep(0.02)
    async with client.open(f"session_id={connected['session_id']}") as socket:
        await client.resume(socket, connected)
        said, code, _ = await ending(socket)
    texts = [message["text"] for message in said if message.get("is_final")]
    assert texts == [final.text for final in await alone(fake_server)]
    assert (said[-1]["type"], code) == ("closed", 1000)


async def test_the_older_of_two_connections_is_closed_4409_and_the_newer_loses_nothing(
    fake_server: RunningServer,
) -> None:
    client = Raw(fake_server)
    async with client.open() as older:
        connected = await told(older, "connected")
        await client.say(older, range(10))
        while (await told(older, "ack"))["sequence"] < 9:
            pass
        async with client.open(f"session_id={connected['session_id']}") as newer:
            await client.resume(newer, connected)
            next_sequence = (await told(newer, "resumed"))["next_sequence"]
            said, code, _ = await ending(older)
            assert (said[-1]["name"], code) == ("session_superseded", 4409)
            await client.say(newer, range(next_sequence, len(PACKETS)))
            await newer.send(END)
            said, code, _ = await ending(newer)
    assert code == 1000
    texts = [message["text"] for message in said if message.get("is_final")]
    assert texts == [final.text for final in await alone(fake_server)]


async def test_after_the_window_the_session_is_gone(hasty_server: RunningServer) -> None:
    client = Raw(hasty_server)
    async with client.open() as socket:
        connected = await told(socket, "connected")
        await client.say(socket, range(3))
        await told(socket, "ack")
        socket.transport.abort()
    await until_no_session(hasty_server)
    async with client.open(f"session_id={connected['session_id']}") as socket:
        await client.resume(socket, connected)
        said, code, _ = await ending(socket)
    assert (said[-1]["name"], said[-1]["code"], said[-1]["retry"], code) == ("session_not_found", 404, "never", 4404)
    await until_no_session(hasty_server)


async def test_a_client_that_comes_back_too_late_is_told(hasty_server: RunningServer) -> None:
    async with NativeClient(hasty_server.address.websocket) as client:
        await client.send(PACKETS[0])
        while not await figure(hasty_server, "funasr_active_streams"):
            await asyncio.sleep(0.02)
        client.drop_connection()
        await until_no_session(hasty_server)
        with pytest.raises(ServerError, match="session_not_found"):
            [message async for message in client]


async def test_a_foreign_session_an_unknown_one_and_a_wrong_token_look_the_same(keyed: Keyed) -> None:
    """Law 9."""
    owner, thief = Raw(keyed.server, keyed.acme), Raw(keyed.server, keyed.other)
    async with owner.open() as mine:
        connected = await told(mine, "connected")
        await owner.say(mine, range(3))
        await told(mine, "ack")
        answers = []
        for client, claims in (
            (thief, {}),
            (thief, {"session_id": "never-heard-of"}),
            (owner, {"resume_token": "x" * len(connected["resume_token"])}),
            (owner, {"resume_token": ""}),
            (owner, {"session_id": "never-heard-of"}),
        ):
            async with client.open() as socket:
                await told(socket, "connected")
                await client.resume(socket, connected, **claims)
                said, code, reason = await ending(socket)
                answers.append((said, code, reason))
        assert answers == [answers[0]] * 5
        assert answers[0][1] == 4404
        await owner.say(mine, range(3, len(PACKETS)))
        await mine.send(END)
        said, code, _ = await ending(mine)
    assert code == 1000
    texts = [message["text"] for message in said if message.get("is_final")]
    assert texts == [final.text for final in await alone(keyed.server, key=keyed.other)]
