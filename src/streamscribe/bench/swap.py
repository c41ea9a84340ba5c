"""Models replaced under live streams: whether anything that was said is lost, and what it takes of memory and time.

One server process. All sessions say their scripts once, undisturbed: what they hear is what is to be heard. Then they
say them again and again, in real time, while the models are replaced by SIGHUP, one swap after the other: each version
is a folder of the same files and one more, so that it is another one to the server. Nothing is kept of audio, so that
every final comes from a model.

Memory is the server's resident set, looked at every 50 ms. *One* is its highest while the streams speak undisturbed,
with one version; *peak* the highest of all swaps under streams. Before the streams and after them is a swap while
nobody speaks: what is there after each, *idle*, tells what all that was between them left.
"""

import asyncio
import re
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import httpx
import numpy as np
import yaml

from streamscribe.bench import metrics
from streamscribe.bench.corpus import telephone_prompts
from streamscribe.bench.hearing import Pcm, read
from streamscribe.bench.load import OPEN_DOOR, allow_files, quantile_ms
from streamscribe.bench.memory_watch import MemoryWatch
from streamscribe.bench.recordings import recordings
from streamscribe.bench.report import Report, report
from streamscribe.bench.steady_talk import Talk, missing, talk
from streamscribe.bench.version_memory import version_bytes
from streamscribe.bootstrap.engines import punctuator_id, recognizer_ids, streaming_id
from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.options import Mode
from streamscribe.models.registry import open_verified
from streamscribe.settings import ModelSettings, Settings
from streamscribe.wire.native_client import StartMessage

CLIPS = 3
"""Of a stream's script."""
PAUSE_S = 1.6
RARE_CLIPS = 1
RARE_PAUSE_S = 40.0
"""Where no small model streams: twenty who hardly pause are more than a large model on few cores keeps up with."""
PROMPTS = 12
BLOCK_S = 0.6
"""Scripts are whole numbers of it, so that each round meets the blocks of models as the first did."""
BETWEEN_S = 3.0
IDLE_SWAPS = 2
ASK_EVERY_S = 0.1
SWAP_TIMEOUT_S = 600.0
NOTHING_KEPT = ("--set=cache.max_encoder_entries=0", "--set=cache.max_feature_cache_size=0")


class Versions:
    """A settings file that names folders of models: another version of all that can be replaced at each `renew`."""

    def __init__(self, folder: Path, settings: ModelSettings) -> None:
        self.config = folder / "streamscribe.yaml"
        self._folder = folder
        self._settings = settings
        self._made = 0
        ids = (*recognizer_ids(settings), streaming_id(settings), punctuator_id(settings))
        self._ids = [one for one in ids if one is not None]
        self.renew()

    @property
    def roles(self) -> int:
        """How many are replaced."""
        return len(self._ids)

    def renew(self) -> None:
        """Names new folders: links to the models' files, and a file of their own."""
        self._made += 1
        folders = {}
        for model_id in self._ids:
            folder = self._folder / f"{model_id}-{self._made}"
            for name, file in open_verified(model_id, self._settings.dir.expanduser()).items():
                link = folder / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file.absolute())
            (folder / "version").write_text(str(self._made))
            folders[model_id] = str(folder)
        told = {"profile": self._settings.profile, "dir": str(self._settings.dir), "folders": folders}
        self.config.write_text(yaml.safe_dump({"model": told}))


def run(settings: Settings, *, sessions: int, swaps: int) -> Report:
    """Measures on the profile's models."""
    allow_files(sessions + 100)
    arguments = [f"--set=limits.max_sessions={sessions}", f"--set=limits.max_tenant_sessions={sessions}", *OPEN_DOOR]
    with tempfile.TemporaryDirectory(prefix="streamscribe-") as folder:
        versions = Versions(Path(folder), settings.model)
        grown = version_bytes(versions.config)
        scripts, start = asyncio.run(_scripts(settings.model, sessions, Path(folder)))
        with LocalServer(["--config", str(versions.config), *NOTHING_KEPT, *arguments]) as server:
            figures = asyncio.run(_measure(server, versions, scripts, start, swaps))
    figures["version_mib"] = grown / 2**20
    figures["added_over_version"] = (figures["memory_peak_mib"] - figures["memory_one_mib"]) / figures["version_mib"]
    return report("swap", {"profile": settings.model.profile, "sessions": sessions, "swaps": swaps}, figures)


async def _scripts(settings: ModelSettings, sessions: int, folder: Path) -> tuple[list[bytes], StartMessage]:
    """What each stream says, and how it is opened: both passes where a model streams, else finals alone."""
    if streaming_id(settings) is not None:
        clips = [one.samples for one in recordings()]
        return [_script(clips, at, CLIPS, PAUSE_S) for at in range(sessions)], StartMessage()
    prompts = telephone_prompts(settings.dir.expanduser(), PROMPTS, folder)
    clips = [await read(one.audio) for one in prompts]
    scripts = [_script(clips, at, RARE_CLIPS, RARE_PAUSE_S) for at in range(sessions)]
    return scripts, StartMessage(mode=Mode.OFFLINE, language="en")


def _script(clips: Sequence[Pcm], first: int, count: int, pause_s: float) -> bytes:
    """So many clips from the `first` on, with pauses; the first pause is another one in each script."""
    pause = int(pause_s * SAMPLE_RATE)
    before = pause * (first % len(clips) + 1) // (len(clips) + 1)
    parts: list[Pcm] = [np.zeros(before, np.int16)]
    for at in range(first, first + count):
        parts += [clips[at % len(clips)], np.zeros(pause, np.int16)]
    length = sum(map(len, parts))
    whole = -(-length // int(BLOCK_S * SAMPLE_RATE)) * int(BLOCK_S * SAMPLE_RATE)
    return np.concatenate([*parts, np.zeros(whole - length, np.int16)]).astype("<i2").tobytes()


async def _measure(
    server: RunningServer, versions: Versions, scripts: Sequence[bytes], start: StartMessage, swaps: int
) -> dict[str, float]:
    url = server.address.websocket
    await _swap(server, versions)
    idle = server.memory_bytes()
    with MemoryWatch(server.memory_bytes) as memory:
        once = asyncio.Event()
        once.set()
        undisturbed = await asyncio.gather(*(talk(url, script, start, once) for script in scripts))
        one = memory.peak()
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            talks = [tasks.create_task(talk(url, script, start, over)) for script in scripts]
            await asyncio.sleep(BETWEEN_S)
            one = max(one, memory.peak())
            took_s = []
            for _ in range(swaps):
                took_s.append(await _swap(server, versions))
                await asyncio.sleep(BETWEEN_S)
            peak = memory.peak()
            over.set()
    await _swap(server, versions)
    idle_after, results = server.memory_bytes(), await _results(server)
    disturbed = [task.result() for task in talks]
    return {
        **_heard(undisturbed, disturbed),
        "swaps": results["done"] / versions.roles - IDLE_SWAPS,
        "refused_swaps": float(results.total() - results["done"]),
        "swap_median_s": median(took_s),
        "swap_longest_s": max(took_s),
        "memory_one_mib": one / 2**20,
        "memory_peak_mib": peak / 2**20,
        "memory_peak_over_one": peak / one,
        "memory_idle_before_mib": idle / 2**20,
        "memory_idle_after_mib": idle_after / 2**20,
        "memory_idle_after_over_before": idle_after / idle,
    }


async def _swap(server: RunningServer, versions: Versions) -> float:
    """How long the next swap took, from the signal until the former version's memory is given back."""
    before = (await _results(server)).total()
    versions.renew()
    began_s = perf_counter()
    server.process.send_signal(signal.SIGHUP)
    try:
        async with asyncio.timeout(SWAP_TIMEOUT_S):
            while (await _results(server)).total() < before + versions.roles:  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(ASK_EVERY_S)
    except TimeoutError:
        raise ModelUnavailable(f"the models were not replaced within {SWAP_TIMEOUT_S:g} s") from None
    return perf_counter() - began_s


async def _results(server: RunningServer) -> Counter[str]:
    """What became of swaps, all roles together."""
    try:
        text = await metrics.told(server.address.http)
    except httpx.HTTPError as error:
        raise ModelUnavailable(f"the server does not answer: {type(error).__name__}") from None
    found = re.findall(r'^streamscribe_model_swaps_total\{.*result="(\w+)".*\} (\S+)$', text, re.MULTILINE)
    results: Counter[str] = Counter()
    for result, count in found:
        results[result] += int(float(count))
    return results


def _heard(undisturbed: Sequence[Talk], disturbed: Sequence[Talk]) -> dict[str, float]:
    """Finals of the streams whose models were replaced, held against as many rounds of what they heard before."""
    lost = other = 0
    for before, after in zip(undisturbed, disturbed, strict=True):
        expected = Counter({key: count * after.rounds for key, count in before.said.items()})
        absent = missing(expected, after.said)
        lost += absent
        other += (expected - after.said).total() - absent
    return {
        "rounds": float(sum(one.rounds for one in disturbed)),
        "finals": float(sum(one.said.total() for one in disturbed)),
        "lost_finals": float(lost),
        "doubled_finals": float(sum(one.doubled for one in (*undisturbed, *disturbed))),
        "other_finals": float(other),
        "session_errors": float(sum(len(one.errors) for one in (*undisturbed, *disturbed))),
        "undisturbed_final_p95_ms": _p95_ms(undisturbed),
        "final_p95_ms": _p95_ms(disturbed),
    }


def _p95_ms(talks: Iterable[Talk]) -> float:
    return quantile_ms(sorted(delay_s for one in talks for delay_s in one.delays_s), 0.95)
