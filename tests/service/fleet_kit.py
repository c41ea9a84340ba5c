"""A server with two workers, sessions that speak to it while it is harmed, and what they were told."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import httpx
from prometheus_client.parser import text_string_to_metric_families

from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.wire.native_server import ClosedMessage, ErrorMessage, ResultMessage, ServerWire
from tests.service.conftest import EVERYBODY
from tests.service.kit import cut, noise_speech, session

WORKERS = 2
PACKET_BYTES = 6400
SPEECH = [noise_speech(5000 + number) for number in range(6)]

Told = list[tuple[int, int, str, int, int]]
"""All finals that came, both passes': a final that is lost, doubled or changed makes a difference."""


def fleet(*settings: str, profile: str = "fake") -> LocalServer:
    flags = [flag for setting in settings for flag in ("--set", setting)]
    return LocalServer(["--profile", profile, "--workers", str(WORKERS), *EVERYBODY, *flags])


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.05)


async def scrape(server: RunningServer) -> dict[str, float]:
    """All samples, by name and labels; raises ValueError for what is no valid exposition, or says a sample twice."""
    async with httpx.AsyncClient(timeout=None) as http:
        text = (await http.get(f"{server.address.http}/metrics")).text
    names, samples = [], {}
    for family in text_string_to_metric_families(text):
        names.append(family.name)
        for sample in family.samples:
            key = sample.name + json.dumps(sample.labels, sort_keys=True)
            assert key not in samples
            samples[key] = sample.value
    assert len(names) == len(set(names))
    return samples


def finals_told(messages: Iterable[ServerWire]) -> Told:
    return sorted(
        (m.segment_id, m.pass_, m.text, m.start_ms, m.end_ms)
        for m in messages
        if isinstance(m, ResultMessage) and m.is_final
    )


def check_whole(messages: Sequence[ServerWire]) -> Told:
    """No error, a regular end, versions that grow; its finals."""
    assert not [message for message in messages if isinstance(message, ErrorMessage)]
    assert isinstance(messages[-1], ClosedMessage)
    versions = [message.version for message in messages if isinstance(message, ResultMessage)]
    assert versions == sorted(set(versions))
    return finals_told(messages)


async def undisturbed(server: RunningServer, speech: Sequence[bytes] = SPEECH, *, least: int = 3) -> list[Told]:
    """What each of them hears whom nothing disturbs: so many finals at least."""
    heard = await asyncio.gather(*(session(server.address.websocket, cut(pcm, PACKET_BYTES)) for pcm in speech))
    told = [check_whole(messages) for messages in heard]
    assert all(len(finals) >= least for finals in told)
    return told


async def speaking(
    server: RunningServer, harm: Callable[[int], Awaitable[None]], speech: Sequence[bytes] = SPEECH
) -> list[Told]:
    """What all hear who speak at about twice real time, while `harm` is done after each second of their audio."""
    said = asyncio.Semaphore(0)

    async def packets(pcm: bytes, first: bool) -> AsyncIterator[bytes]:
        for number, packet in enumerate(cut(pcm, PACKET_BYTES)):
            yield packet
            if first and number % 5 == 4:
                said.release()
            await asyncio.sleep(0.1)

    async def one(pcm: bytes, first: bool) -> list[ServerWire]:
        async with NativeClient(server.address.websocket) as client, asyncio.TaskGroup() as tasks:

            async def speak() -> None:
                async for packet in packets(pcm, first):
                    await client.send(packet)
                await client.end()

            tasks.create_task(speak())
            return [message async for message in client]

    over = asyncio.Event()

    async def harming() -> None:
        number = 0
        while await said.acquire() and not over.is_set():
            await harm(number)
            number += 1

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(harming())
        heard = await asyncio.gather(*(one(pcm, number == 0) for number, pcm in enumerate(speech)))
        over.set()
        said.release()
    return [check_whole(messages) for messages in heard]
