"""A live session that says the same again and again, and what it heard."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from streamscribe.bench.load import CHUNK_BYTES, CHUNK_S
from streamscribe.client.errors import ConnectionLost, ServerError
from streamscribe.client.native import NativeClient
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ErrorMessage, ResultMessage, ServerWire

_CHUNK_MS = 1000 * CHUNK_BYTES // (2 * SAMPLE_RATE)

Said = Counter[tuple[int, str]]
"""How often each pass gave each text."""


@dataclass(slots=True)
class Talk:
    """What a session said and heard: rounds of its script, finals by pass and segment, and what went wrong."""

    rounds: int = 0
    finals: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """What the server, or the connection, said of each."""
    delays_s: list[float] = field(default_factory=list)
    """From the handing over of the last sample of each segment until its final was read here."""

    @property
    def said(self) -> Said:
        """The texts."""
        return Counter((pass_, texts[-1]) for (pass_, _), texts in self.finals.items())

    @property
    def doubled(self) -> int:
        """Finals of a pass beyond the first of their segment."""
        return sum(len(texts) - 1 for texts in self.finals.values())


async def talk(url: str, script: bytes, start: StartMessage, over: asyncio.Event) -> Talk:
    """A session that says its script in real time until `over` is set, always to its end and once at least.

    Whatever ends it but its own end is one of its errors; it does not come back after a broken connection.
    """
    told = Talk()
    sent_s: list[float] = []  # a number for each chunk: bounded by the bench's length
    try:
        async with NativeClient(url, start=start, resume=False) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(_say(client, script, over, told, sent_s))
            async for message in client:
                _hear(message, told, sent_s)
    except* (ServerError, ConnectionLost) as errors:
        told.errors += [str(error) for error in errors.exceptions]
    return told


async def _say(client: NativeClient, script: bytes, over: asyncio.Event, told: Talk, sent_s: list[float]) -> None:
    due = perf_counter()
    while True:
        for at in range(0, len(script), CHUNK_BYTES):
            await asyncio.sleep(max(0.0, due - perf_counter()))
            due += CHUNK_S
            sent_s.append(perf_counter())
            await client.send(script[at : at + CHUNK_BYTES])
        told.rounds += 1
        if over.is_set():
            break
    await client.end()


def _hear(message: ServerWire, told: Talk, sent_s: Sequence[float]) -> None:
    if isinstance(message, ErrorMessage):
        told.errors.append(message.name)
    elif isinstance(message, ResultMessage) and message.is_final:
        told.finals.setdefault((message.pass_, message.segment_id), []).append(message.text)
        told.delays_s.append(perf_counter() - sent_s[min(message.end_ms // _CHUNK_MS, len(sent_s) - 1)])


def missing(expected: Said, heard: Said) -> int:
    """How many finals there should be more, pass by pass, whatever their texts."""
    passes = {pass_ for pass_, _ in expected}
    return sum(max(0, _of(pass_, expected) - _of(pass_, heard)) for pass_ in passes)


def _of(pass_: int, said: Said) -> int:
    return sum(count for (one, _), count in said.items() if one == pass_)
