"""Which gateways, workers and finalizers of a cluster run, and which partitions of the audio nobody has."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from streamscribe.bootstrap.cluster.board import open_board
from streamscribe.bootstrap.finding import Finding
from streamscribe.bootstrap.sessions import PATIENCE_S, patient_sessions
from streamscribe.core.cluster_load import UNOWNED_TOO_LONG_S, WorkerLoad
from streamscribe.core.errors import StoreUnavailable
from streamscribe.settings import Settings, SettingsError
from streamscribe.wire import worker_board as wire

LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Present:
    """Who says that it runs: gateways by their numbers, what workers tell, finalizers."""

    gateways: Mapping[int, str]
    workers: Mapping[str, WorkerLoad]
    finalizers: Collection[str]

    def unowned(self, partitions: int) -> list[int]:
        """Partitions that no worker has."""
        owned = {number for load in self.workers.values() for number in load.partitions}
        return [number for number in range(partitions) if number not in owned]


async def who_runs(settings: Settings, within_s: float = UNOWNED_TOO_LONG_S) -> Present:
    """By what they say of themselves in Redis; where workers run and partitions have no owner, looked at again until
    they have, for so long at most: they may move just now. Raises SettingsError, StoreUnavailable."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    async with patient_sessions(settings.store) as store, open_board(settings.store, PATIENCE_S) as board:
        while True:
            told = await board.announced()
            loads = {name: load for name, text in told.items() if (load := wire.decode_load(text)) is not None}
            finalizers = sorted(name for name, text in told.items() if wire.takes_no_sessions(text))
            found = Present(await store.gateways(), loads, finalizers)
            moving = found.workers and found.unowned(settings.kafka.audio_partitions)
            if not moving or loop.time() >= until:
                return found
            await asyncio.sleep(LOOK_EVERY_S)


async def tell_standstill(
    settings: Settings, tell: Callable[[str], None], within_s: float = UNOWNED_TOO_LONG_S
) -> NoReturn:
    """Tells, once each time, that partitions have had no owner for so long although workers run; until cancelled."""
    told = False
    while True:
        with suppress(StoreUnavailable):  # each role says so
            present = await who_runs(settings, within_s)
            unowned = present.unowned(settings.kafka.audio_partitions) if present.workers else []
            if unowned and not told:
                tell(
                    f"no worker has partitions {_ranges(unowned)} of audio-chunks, for {within_s:.0f} s, although some "
                    "run; where it stays so, the brokers' group is at a standstill: end this with Ctrl-C and start it "
                    "again (docs/kafka.md, When no worker gets a partition)"
                )
            told = bool(unowned)
        await asyncio.sleep(max(LOOK_EVERY_S, within_s / 5))


def cluster_findings(settings: Settings, *, topics_as_set: bool) -> list[Finding]:
    """What `doctor` says of who runs, where the settings name a cluster whose Redis answers. Blocks, for
    `UNOWNED_TOO_LONG_S` where partitions have no owner.

    Not `topics_as_set`: how many partitions there are is not known, so nothing is said of them.
    """
    if not settings.kafka.brokers or settings.store.redis_url is None:
        return []
    try:
        present = asyncio.run(who_runs(settings, UNOWNED_TOO_LONG_S if topics_as_set else 0.0))
    except (SettingsError, StoreUnavailable):  # the finding of the session store says so
        return []
    return findings_of(present, settings, topics_as_set=topics_as_set)


def findings_of(present: Present, settings: Settings, *, topics_as_set: bool = True) -> list[Finding]:
    """Nobody has to run yet; but where workers do, each partition needs one of them."""
    workers = present.workers
    profile = settings.model.profile
    found = [
        _role("gateways", [f"{name} (number {number})" for number, name in sorted(present.gateways.items())]),
        _role("workers", [f"{name} ({_of(load)})" for name, load in sorted(workers.items())], f" --profile {profile}"),
    ]
    if workers and topics_as_set:
        found.append(_of_partitions(present.unowned(settings.kafka.audio_partitions)))
    if settings.finalizer.enabled or present.finalizers:
        found.append(_role("finalizers", present.finalizers, f" --profile {profile}"))
    return found


def _role(name: str, running: Collection[str], options: str = "") -> Finding:
    detail = f"{len(running)}: {', '.join(running)}" if running else "none runs"
    return Finding(name, bool(running), detail, f"streamscribe {name[:-1]}{options}", needed=False)


def _of(load: WorkerLoad) -> str:
    ill = ", its models serve nobody" if load.outage else ""
    return f"partitions {_ranges(load.partitions)}{ill}" if load.partitions else f"no partition{ill}"


def _of_partitions(unowned: Collection[int]) -> Finding:
    name = "partitions of audio-chunks"
    if not unowned:
        return Finding(name, True, "each has a worker")
    told = f"no worker has {_ranges(unowned)}, for {UNOWNED_TOO_LONG_S:.0f} s"
    return Finding(name, False, f"{told}; see docs/kafka.md, When no worker gets a partition")


def _ranges(numbers: Iterable[int]) -> str:
    """0-3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
