"""What a long silence does to a session: its cost, its memory, what is heard in it, and the speech after it.

A platform in this process, no network. One session hears the whole silence (faint noise, as of a quiet room). Then it
and a session that has just begun hear a minute each in turn, several times: the cost of the old one's minute over that
of the young one's is taken from neighbours in time, and the median of the turns counts, so that noise of the machine
spoils a turn and not the figure. At last the old session hears speech.
"""

import asyncio
import time
from array import array
from dataclasses import dataclass, field
from math import sin
from pathlib import Path
from random import Random
from statistics import median

from streamscribe.audio.decode import DecodeLimits, decode
from streamscribe.bench.report import Report, report
from streamscribe.bench.text import error_rate
from streamscribe.bootstrap import Platform, platform
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.core.messages import Audio, End, Flush, FlushDone, ResultSent, ServerMessage
from streamscribe.core.options import SessionOptions
from streamscribe.core.script import join
from streamscribe.gateway.live_session import LiveSession
from streamscribe.models.registry import open_verified
from streamscribe.observe.logs import configure
from streamscribe.ports import Tenant
from streamscribe.settings import Settings

TURNS = 5
CHUNK_S = 0.1
NOISE_AMPLITUDE = 8
SPEECH = "en/quick_brown_fox"


@dataclass(slots=True)
class _Ear:
    """A session's sink: the results so far, and what waits for a flush or for the end."""

    results: list[ResultSent] = field(default_factory=list)
    flushed: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    error: StreamScribeError | None = None

    def send(self, message: ServerMessage) -> None:
        """Keeps what has text."""
        if isinstance(message, ResultSent) and message.result.text:
            self.results.append(message)
        elif isinstance(message, FlushDone):
            self.flushed.set()

    def close(self, error: StreamScribeError | None) -> None:
        """The session is over."""
        self.error = error
        self.over.set()
        self.flushed.set()


class _Listening:
    """A session of the platform, and its ear."""

    def __init__(self, parts: Platform) -> None:
        self.ear = _Ear()
        tenant = Tenant(TenantId("bench"), parts.settings.limits.max_sessions)
        self._live: LiveSession = parts.hub.open(tenant, SessionOptions(live=False), self.ear)

    async def hear(self, pcm: bytes) -> None:
        """Gives audio in chunks; returns when all of it is processed."""
        step = int(CHUNK_S * SAMPLE_RATE) * 2
        self.ear.flushed.clear()
        for at in range(0, len(pcm), step):
            await self._live.receive(Audio(pcm[at : at + step]))
        await self._live.receive(Flush("heard"))
        await self.ear.flushed.wait()
        if self.ear.error is not None:
            raise self.ear.error

    async def end(self) -> None:
        """Ends it; returns when it is over."""
        await self._live.receive(End())
        await self.ear.over.wait()

    async def cost_s(self, pcm: bytes) -> float:
        """Processor seconds of this process, all threads, while it hears."""
        before_s = time.process_time()
        await self.hear(pcm)
        return time.process_time() - before_s


def run(settings: Settings, *, minutes: float) -> Report:
    """Measures on the profile's models."""
    configure(settings.observe)
    figures = asyncio.run(_measure(settings, minutes))
    return report("silence", {"profile": settings.model.profile, "minutes": minutes, "turns": TURNS}, figures)


async def _measure(settings: Settings, minutes: float) -> dict[str, float]:
    fake = settings.model.profile == "fake"
    speech, said = (_tone(), "") if fake else await _recording(settings.model.dir.expanduser())
    minute = _noise(60)
    async with platform(settings) as parts:
        await asyncio.to_thread(parts.models.wait_ready)
        old = _Listening(parts)
        await old.hear(minute)
        first_bytes = _resident_bytes()
        for _ in range(round(minutes) - 1):
            await old.hear(minute)
        grown_bytes = _resident_bytes() - first_bytes
        young_s, old_s = [], []
        for _ in range(TURNS):
            young = _Listening(parts)
            young_s.append(await young.cost_s(minute))
            old_s.append(await old.cost_s(minute))
            await young.end()
        on_silence = len(old.ear.results)
        await old.hear(speech)
        await old.end()
    finals = [sent.result.text for sent in old.ear.results[on_silence:] if sent.result.is_final]
    text = ""
    for final in finals:
        text = join(text, final)
    figures = {
        "texts_on_silence": float(on_silence),
        "cost_first_ms_per_s": 1000 * median(young_s) / 60,
        "cost_last_ms_per_s": 1000 * median(old_s) / 60,
        "cost_last_over_first": median(old / young for old, young in zip(old_s, young_s, strict=True)),
        "memory_growth_mib": grown_bytes / 2**20,
        "finals_of_speech": float(len(finals)),
    }
    return figures if fake else figures | {"speech_error_rate": error_rate(said, text)}


def _noise(seconds: int) -> bytes:
    """A second of faint noise, over and over."""
    random = Random(0)
    second = (random.randint(-NOISE_AMPLITUDE, NOISE_AMPLITUDE) for _ in range(SAMPLE_RATE))
    return array("h", second).tobytes() * seconds


def _tone() -> bytes:
    """Two seconds that the fake models take for speech."""
    return array("h", (int(8000 * sin(0.05 * i)) for i in range(2 * SAMPLE_RATE))).tobytes()


async def _recording(model_dir: Path) -> tuple[bytes, str]:
    files = open_verified("demo-recordings", model_dir)
    blocks = [block async for block in decode(files[f"{SPEECH}.wav"], DecodeLimits())]
    return b"".join(blocks), files[f"{SPEECH}.txt"].read_text(encoding="utf-8")


def _resident_bytes() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))
