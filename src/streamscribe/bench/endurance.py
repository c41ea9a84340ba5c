"""An hour of one stream: whether its last minutes cost what the first ones did, in time and in memory.

A platform in this process, no network, both passes. One session hears the same minute of speech with pauses over and
over, as fast as it is taken. Then it and a session that has just begun hear that minute in turns: the cost of the old
one's over that of the young one's is taken from neighbours in time, so that a change of the machine's speed during the
hour does not count.
"""

import asyncio
from statistics import median

from streamscribe.bench.listening import TURNS, Listening, costs_s, resident_bytes
from streamscribe.bench.report import Report, report
from streamscribe.bench.speech import with_pauses
from streamscribe.bootstrap.platform import platform
from streamscribe.core.options import SessionOptions
from streamscribe.observe.logs import configure
from streamscribe.settings import Settings

OPTIONS = SessionOptions(language="zh", live=False)
SHARE = 5
"""The first and the last fifth of the minutes are compared."""


def run(settings: Settings, *, minutes: int) -> Report:
    """Measures on the profile's models; a minute is one of audio."""
    configure(settings.observe)
    figures = asyncio.run(_measure(settings, minutes))
    return report("endurance", {"profile": settings.model.profile, "minutes": minutes, "turns": TURNS}, figures)


async def _measure(settings: Settings, minutes: int) -> dict[str, float]:
    minute = with_pauses(60).tobytes()
    fifth = max(1, minutes // SHARE)
    async with platform(settings) as parts:
        await asyncio.to_thread(parts.models.wait_ready)
        old = Listening(parts, OPTIONS)
        costs, resident, finals = [], [], []
        for _ in range(minutes):
            costs.append(await old.cost_s(minute))
            resident.append(resident_bytes())
            finals.append(sum(sent.result.is_final for sent in old.ear.results))
            old.ear.results.clear()
        turns_s = await costs_s(parts, old, OPTIONS, minute)
        await old.end()
    return {
        "finals_first_minute": float(finals[0]),
        "finals_last_minute": float(finals[-1]),
        "cost_first_ms_per_s": 1000 * median(costs[:fifth]) / 60,
        "cost_last_ms_per_s": 1000 * median(costs[-fifth:]) / 60,
        "cost_last_fifth_over_first": median(costs[-fifth:]) / median(costs[:fifth]),
        "cost_last_over_first": median(old_s / young_s for young_s, old_s in turns_s),
        "memory_first_mib": resident[fifth - 1] / 2**20,
        "memory_last_over_first": resident[-1] / resident[fifth - 1],
    }
