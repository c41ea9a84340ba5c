"""What a list of rare names wins where they are said, and what it spoils where they are not, through the service.

The names are written in characters that no model of the profile writes, so that the list alone can bring them about.
Every clip is streamed twice, with the list and without it; the finals of the second pass are compared.
"""

import asyncio
from collections.abc import Sequence
from operator import contains

from streamscribe.bench.corpus import Utterance
from streamscribe.bench.hearing import hear_all, read
from streamscribe.bench.load import OPEN_DOOR
from streamscribe.bench.recordings import named
from streamscribe.bench.report import Report, report
from streamscribe.bench.text import error_rate
from streamscribe.client.local_server import LocalServer
from streamscribe.core.options import Mode
from streamscribe.settings import Settings
from streamscribe.wire.native_client import StartMessage

LAST = Mode.TWO_PASS.last_pass


def run(settings: Settings, others: Sequence[Utterance]) -> Report:
    """Measures the profile of `settings` on the package's clips with names, and on `others`, in which none is said."""
    clips = named()
    names = [clip.name for clip in clips]
    with LocalServer(["--profile", settings.model.profile, *OPEN_DOOR]) as server:
        with_list, without = asyncio.run(
            _hear(server.address.websocket, [*(clip.said for clip in clips), *others], names)
        )
    count = len(clips)
    found_with = 100 * sum(map(contains, with_list, names)) / count
    found_without = 100 * sum(map(contains, without, names)) / count
    of_others = sum(name in text for at, name in enumerate(names) for text in with_list[:at] + with_list[at + 1 :])
    figures = {
        "names": float(count),
        "recall_without_list_percent": found_without,
        "recall_with_list_percent": found_with,
        "recall_gain_points": found_with - found_without,
        "names_nobody_said": float(of_others),
        "clips_without_names": float(len(others)),
        "new_errors": float(_spoiled([one.text for one in others], without[count:], with_list[count:])),
    }
    told = {"profile": settings.model.profile, "names": count, "clips_without_names": len(others)}
    return report("hotwords", told, figures)


async def _hear(url: str, said: Sequence[Utterance], names: Sequence[str]) -> list[list[str]]:
    """The last texts of all clips: with the names listed, and without."""
    audio = [await read(utterance.audio) for utterance in said]
    starts = [StartMessage(hotwords=names, itn=False), StartMessage(itn=False)]
    return [[passes[LAST] for passes in await hear_all(url, audio, start)] for start in starts]


def _spoiled(said: Sequence[str], without: Sequence[str], with_list: Sequence[str]) -> int:
    """How many texts are others with the list and no better."""
    return sum(
        after != before and error_rate(text, after) >= error_rate(text, before)
        for text, before, after in zip(said, without, with_list, strict=True)
    )
