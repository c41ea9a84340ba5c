"""What a running server hears of short recordings, pass by pass."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from streamscribe.audio.decode import DecodeLimits, decode
from streamscribe.client.native import NativeClient
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.script import join
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage

Pcm = npt.NDArray[np.int16]
"""16 kHz mono."""

PLAIN_SUFFIXES = (".wav", ".flac")
AT_ONCE = 8
SILENCE: Pcm = np.zeros(SAMPLE_RATE, np.int16)
"""A second, behind each recording: endpoints need it."""


async def read(file: Path) -> Pcm:
    """A recording's samples, of any format that clients may send; one that is as the models want it is just read."""
    if file.suffix in PLAIN_SUFFIXES:
        with soundfile.SoundFile(file) as sound:
            if (sound.samplerate, sound.channels) == (SAMPLE_RATE, 1):
                samples: Pcm = sound.read(dtype="int16")
                return samples
    return np.frombuffer(b"".join([block async for block in decode(file, DecodeLimits())]), "<i2")


async def hear_all(url: str, recordings: Sequence[Pcm], start: StartMessage) -> list[dict[int, str]]:
    """The texts of each recording by pass (1 and 2), a session for each, eight at once, as fast as they are taken."""
    room = asyncio.Semaphore(AT_ONCE)

    async def hear(samples: Pcm) -> dict[int, str]:
        async with room:
            return await _hear(url, np.concatenate([samples, SILENCE]).tobytes(), start)

    return await asyncio.gather(*map(hear, recordings))


async def _hear(url: str, pcm: bytes, start: StartMessage) -> dict[int, str]:
    passes = {1: "", 2: ""}
    async with NativeClient(url, start=start) as client:
        await client.send(pcm)
        await client.end()
        async for message in client:
            if isinstance(message, ResultMessage) and message.is_final:
                passes[message.pass_] = join(passes[message.pass_], message.text)
    return passes
