"""What a long silence does to a session: its cost, its memory, what is heard in it, and the speech after it.

A platform in this process, no network. One session hears the whole silence (faint noise, as of a quiet room). Then it
and a session that has just begun hear a minute each in turn, several times: the cost of the old one's minute over that
of the young one's is taken from neighbours in time, and the median of the turns counts, so that noise of the machine
spoils a turn and not the figure. At last the old session hears speech.
"""

import asyncio
from array import array
from math import sin
from pathlib import Path
from random import Random
from statistics import median

from streamscribe.audio.decode import DecodeLimits, decode
from streamscribe.bench.listening import TURNS, Listening, costs_s, resident_bytes
from streamscribe.bench.report import Report, report
from streamscribe.bench.text import error_rate
from streamscribe.bootstrap.platform import platform
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.options import SessionOptions
from streamscribe.core.script import join
from streamscribe.models.registry import open_verified
from streamscribe.observe.logs import configure
from streamscribe.settings import Settings

NOISE_AMPLITUDE = 8
SPEECH = "en/quick_brown_fox"


def run(settings: Settings, *, minutes: float) -> Report:
    """Measures on the profile's models."""
    configure(settings.observe)
    figures = asyncio.run(_measure(settings, minutes))
    profile = settings.model.profile
    told = {"profile": profile, "minutes": minutes, "turns": TURNS}
    return report("silence", told, figures, () if profile == "fake" else ("speech",))


async def _measure(settings: Settings, minutes: float) -> dict[str, float]:
    fake = settings.model.profile == "fake"
    speech, said = (_tone(), "") if fake else await _recording(settings.model.dir.expanduser())
    minute, options = _noise(60), SessionOptions(live=False)
    async with platform(settings) as parts:
        await asyncio.to_thread(parts.models.wait_ready)
        old = Listening(parts, options)
        await old.hear(minute)
        first_bytes = resident_bytes()
        for _ in range(round(minutes) - 1):
            await old.hear(minute)
        grown_bytes = resident_bytes() - first_bytes
        turns_s = await costs_s(parts, old, options, minute)
        on_silence = len(old.ear.results)
        await old.hear(speech)
        await old.end()
    finals = [sent.result.text for sent in old.ear.results[on_silence:] if sent.result.is_final]
    text = ""
    for final in finals:
        text = join(text, final)
    figures = {
        "texts_on_silence": float(on_silence),
        "cost_first_ms_per_s": 1000 * median(young for young, _ in turns_s) / 60,
        "cost_last_ms_per_s": 1000 * median(old for _, old in turns_s) / 60,
        "cost_last_over_first": median(old / young for young, old in turns_s),
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
