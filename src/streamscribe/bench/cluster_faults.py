"""Worker processes that are killed, replaced and frozen under live streams: what is lost, how long nothing comes."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import nan
from time import perf_counter

from streamscribe.bench.chaos_voice import SCRIPTS, Script, Voice, all_say, held_against
from streamscribe.bench.load import OPEN_DOOR, allow_files, quantile_ms
from streamscribe.bench.metrics import counted
from streamscribe.bench.worker_fleet import replace, until_ready, worker_pids
from streamscribe.client.local_server import LocalServer, RunningServer

WORKERS = 2
COST_MS = 10
KILL_EVERY_S = 5.0
WAIT_EVERY_S = 1.0
"""So often it is looked how long a session waits for its next text."""
SPOKEN_S = 1.5
"""Whose wait for the next text counts has so much left to say, and hence should be answered meanwhile."""
HANG_S = 1.0
FREEZES = 20
FREEZE_S = 6.0
"""What a freeze takes at most, with the start of a worker in its place."""
FROZEN_FOR = 2
"""Times as long as other harms: that in their minute there are so many freezes."""
SPARE_FILES = 200
TAKEN_OVER = "streamscribe_taken_over_sessions_total"

Harm = Callable[[RunningServer], Coroutine[None, None, None]]
Say = Callable[[int, float], Script]
"""The script of a seed, so many seconds long."""


async def killed(sessions: int, seconds: float, say: Say = Script.of, *more: str) -> dict[str, float]:
    """A random worker is killed every five seconds."""
    kills: list[tuple[float, float]] = []  # when, and how many sessions it had

    async def kill(server: RunningServer) -> None:
        chance = random.Random(5)
        began_s = perf_counter()
        for number in count(1):
            before = await counted(server.address.http, TAKEN_OVER)
            await asyncio.sleep(began_s + (number - 0.5) * KILL_EVERY_S - perf_counter())
            killed_at = perf_counter()
            with suppress(ProcessLookupError):
                os.kill(chance.choice(worker_pids(server)), signal.SIGKILL)
            await asyncio.sleep(began_s + number * KILL_EVERY_S - perf_counter())
            kills.append((killed_at, await counted(server.address.http, TAKEN_OVER) - before))

    figures, voices = await _under(kill, sessions, seconds, *more, say=say)
    waits_s = sorted(wait_s for at, moved in kills for wait_s in longest_waits_s(voices, at, moved))
    return figures | {
        "kills": float(len(kills)),
        "missing_kills": missing(len(kills), seconds / KILL_EVERY_S - 1),  # the last may cross the end
        "next_text_p50_ms": quantile_ms(waits_s, 0.5),
        "next_text_p95_ms": quantile_ms(waits_s, 0.95),
    }


def longest_waits_s(voices: Sequence[Voice], at: float, moved: float) -> list[float]:
    """The waits of those whose worker was killed: nobody knows who they were, so the longest are taken."""
    waits_s = sorted(wait_s for voice in voices if (wait_s := voice.wait_s(at, SPOKEN_S)) is not None)
    count = round(len(waits_s) * moved / len(voices))
    return waits_s[len(waits_s) - count :]


def longest_wait_s(voices: Sequence[Voice], since: float, until: float) -> float:
    """The longest wait for the next text of those who spoke in that while, looked at again and again; NaN of nobody."""
    looks = [since + number * WAIT_EVERY_S for number in range(int((until - since) / WAIT_EVERY_S))]
    waits_s = [voice.wait_s(at, SPOKEN_S) for voice in voices for at in looks]
    return max((wait_s for wait_s in waits_s if wait_s is not None), default=nan)


async def replaced(sessions: int, seconds: float) -> dict[str, float]:
    """Each worker is told to end, one after the other, as in a rolling restart; again and again."""
    rounds = 0

    async def restart(server: RunningServer) -> None:
        nonlocal rounds
        while True:
            for pid in worker_pids(server):
                await replace(server, pid, WORKERS)
            rounds += 1

    figures, _ = await _under(restart, sessions, seconds)
    return figures | {"rounds": float(rounds)}


async def frozen(sessions: int, seconds: float) -> dict[str, float]:
    """A worker is frozen for three times the time after which it counts as hanging, then let go on, if it still is."""
    seconds *= FROZEN_FOR
    fenced = freezes = 0.0

    async def freeze(server: RunningServer) -> None:
        nonlocal fenced, freezes
        while True:
            await until_ready(server, WORKERS)
            pid = random.choice(worker_pids(server))
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(3 * HANG_S)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            freezes += 1
            fenced = await counted(server.address.http, "streamscribe_fenced_events_total")

    figures, _ = await _under(freeze, sessions, seconds, f"--set=worker.hang_timeout_s={HANG_S}")
    return figures | {
        "freezes": freezes,
        "missing_freezes": missing(freezes, min(FREEZES, seconds / FREEZE_S)),
        "fenced_events": fenced,
    }


def missing(harms: float, possible: float) -> float:
    """How many harms are wanting of as many as there is time for, but of one at least."""
    return max(0.0, max(1, int(possible)) - harms)


async def _under(
    harm: Harm, sessions: int, seconds: float, *more: str, say: Say = Script.of
) -> tuple[dict[str, float], list[Voice]]:
    """A server whose workers are harmed under so many sessions."""
    places = (f"--set=limits.max_sessions={sessions}", f"--set=limits.max_tenant_sessions={sessions}")
    arguments = ("--profile=fake", f"--workers={WORKERS}", f"--set=model.fake_cost_ms={COST_MS}", *places, *OPEN_DOOR)
    allow_files(sessions + SPARE_FILES)
    with LocalServer([*arguments, *more]) as server:
        await until_ready(server, WORKERS)
        url = server.address.websocket
        expected = await undisturbed(url, sessions, seconds, say)
        figures, voices = await held_under(partial(harm, server), [url], expected, sessions)
        ends = await counted(server.address.http, "streamscribe_worker_ends_total")
        moved = await counted(server.address.http, TAKEN_OVER)
    return figures | {"worker_ends": ends, "taken_over_sessions": moved}, voices


async def undisturbed(url: str, sessions: int, seconds: float, say: Say = Script.of) -> list[Voice]:
    """One session of each script that so many sessions will say."""
    scripts = [say(seed, seconds) for seed in range(min(sessions, SCRIPTS))]
    return await all_say(url, scripts, len(scripts))


async def held_under(
    harm: Callable[[], Coroutine[None, None, None]], urls: Sequence[str], expected: Sequence[Voice], sessions: int
) -> tuple[dict[str, float], list[Voice]]:
    """So many sessions of what the undisturbed said while `harm` goes on, which is cancelled with the last of them."""
    scripts = [voice.script for voice in expected]
    opened = asyncio.Event()
    harming = asyncio.create_task(_after(opened, harm()))
    try:
        voices = await all_say(urls, scripts, sessions, opened)
    finally:
        harming.cancel()
        await asyncio.wait([harming])
    if not harming.cancelled():
        harming.result()
    return held_against(expected, voices), voices


async def _after(event: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    try:
        await event.wait()
    except asyncio.CancelledError:
        work.close()
        raise
    await work
