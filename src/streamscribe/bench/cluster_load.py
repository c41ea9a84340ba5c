"""What several worker processes carry: more sessions than they have time for, and how throughput grows with them.

The fake model sleeps a fixed time in each step and takes one segment a step, so that what a worker can do is known,
and a machine with few cores can hold several.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, reduce
from itertools import count
from statistics import mean
from time import perf_counter

from streamscribe.bench.chaos_voice import CLOSE_TIMEOUT_S, Script, Voice, say_in_turn
from streamscribe.bench.knocking import knock, waited_s
from streamscribe.bench.load import OPEN_DOOR, allow_files, connect, quantile_ms
from streamscribe.bench.worker_fleet import memory_bytes, until_ready
from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.core.options import Mode
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage

WORKERS = 2
STEP_MS = 100
"""What a draft or a final costs; a worker gives ten a second."""
BURST_S, PAUSE_S = 0.8, 1.2
SESSION_S = 12.0
SETTLE_S = 15.0
SCRIPTS = 16
FIRST_SHARE = 0.6
"""Of the workers' time, what the first rung's finals take; drafts come to that as long as there is time for them."""
RUNG, GROWTH = 1.25, 1.05
"""From rung to rung so much more load comes; goodput that is not so much above the peak's before is no new one."""
BEYOND = 2
"""Rungs above a peak that show that it is one: a single one may have had bad luck."""
RUNG_SHARE = 1 / 3
"""Of the time that the overload lasts, a rung's."""
OVERLOAD = 3.0
LOOK_EVERY_S = 0.5
SPARE_FILES = 1000
COUNTS = (1, 2, 4)
PER_WORKER = 8
CHUNK_BYTES = 32_000

ONE_A_STEP = ("--profile=fake", f"--set=model.fake_cost_ms={STEP_MS}", "--set=model.max_batch_size=1")
MANY = ("--set=limits.max_sessions=5000", "--set=limits.max_tenant_sessions=5000")
UNPACED = tuple(
    f"--set=limits.{name}" for name in ("max_rate=1000", "burst_s=600", "max_burst_s=3600", "max_chunks_per_s=100000")
)


class Crowd:
    """What became of those who came, so many a second, within a while of `seconds`."""

    def __init__(self, per_s: float, seconds: float) -> None:
        self.per_s = per_s
        self.seconds = seconds
        self.finals = 0  # that were told within the while
        self.waits_s: list[float] = []
        self.refused = self.broken = 0
        self.refusals_s: list[float] = []  # of those, and of who knocked
        self.memory: list[float] = []

    @property
    def goodput_per_s(self) -> float:
        """Finals a second."""
        return self.finals / self.seconds


async def overloaded(seconds: float) -> dict[str, float]:
    """More and more sessions come, until goodput grows no more; then three times as many, while others knock."""
    allow_files(SPARE_FILES)
    scripts = [Script.of(seed, SESSION_S, BURST_S, PAUSE_S) for seed in range(SCRIPTS)]
    first_per_s = FIRST_SHARE * WORKERS * 1000 / STEP_MS / mean(len(script.bursts) for script in scripts)
    with LocalServer([*ONE_A_STEP, f"--workers={WORKERS}", *MANY]) as server:
        await until_ready(server, WORKERS)
        rungs = await climbed(partial(_crowd, server, scripts, seconds=RUNG_SHARE * seconds), first_per_s)
        over = await _crowd(server, scripts, OVERLOAD * peak_of(rungs).per_s, seconds=seconds)
    return {**as_figures(rungs), **held_against_peak(rungs, over)}


def as_figures(rungs: Sequence[Crowd]) -> dict[str, float]:
    """How many rungs there were, and what each brought: how the peak was found."""
    return {"rungs": float(len(rungs))} | {
        f"rung_{number}_{name}": value
        for number, rung in enumerate(rungs, 1)
        for name, value in (
            ("sessions_per_s", rung.per_s),
            ("goodput_per_s", rung.goodput_per_s),
            ("final_p99_ms", quantile_ms(sorted(rung.waits_s), 0.99)),
            ("refused", float(rung.refused)),
        )
    }


async def climbed(crowd: Callable[[float], Awaitable[Crowd]], per_s: float) -> list[Crowd]:
    """Crowds of which each asks for more, from `per_s` sessions a second on, until goodput does not grow any more."""
    rungs = [await crowd(per_s)]
    while peak_of(rungs) in rungs[-BEYOND:]:
        rungs.append(await crowd(RUNG * rungs[-1].per_s))
    return rungs


def peak_of(rungs: Sequence[Crowd]) -> Crowd:
    """The last that brought clearly more than those before."""
    return reduce(lambda peak, rung: rung if rung.goodput_per_s >= GROWTH * peak.goodput_per_s else peak, rungs)


def held_against_peak(rungs: Sequence[Crowd], over: Crowd) -> dict[str, float]:
    """The overload beside the highest goodput of any rung, and beside the peak's waits and memory."""
    peak = peak_of(rungs)
    peak_goodput_per_s = max(rung.goodput_per_s for rung in rungs)
    peak_p99_ms, over_p99_ms = (quantile_ms(sorted(crowd.waits_s), 0.99) for crowd in (peak, over))
    return {
        "peak_sessions_per_s": peak.per_s,
        "peak_goodput_per_s": peak_goodput_per_s,
        "peak_over_capacity": peak_goodput_per_s * STEP_MS / 1000 / WORKERS,
        "goodput_per_s": over.goodput_per_s,
        "goodput_over_peak": over.goodput_per_s / peak_goodput_per_s,
        "peak_final_p99_ms": peak_p99_ms,
        "final_p99_ms": over_p99_ms,
        "final_p99_over_peak": over_p99_ms / peak_p99_ms,
        "peak_refused": float(peak.refused),
        "refused": float(over.refused),
        "refusals_timed": float(len(over.refusals_s)),
        "refusal_p99_ms": quantile_ms(sorted(over.refusals_s), 0.99),
        "broken_sessions": float(sum(crowd.broken for crowd in (*rungs, over))),
        "peak_memory_mib": max(peak.memory) / 2**20,
        "memory_mib": max(over.memory) / 2**20,
        "memory_over_peak": max(over.memory) / max(peak.memory),
    }


async def _crowd(server: RunningServer, scripts: Sequence[Script], per_s: float, *, seconds: float) -> Crowd:
    """Sessions that come so often; counted is what they are told in `seconds`, once the first have left."""
    crowd, voices, url = Crowd(per_s, seconds), list[Voice](), server.address.websocket

    async def come(script: Script) -> None:
        began_s = perf_counter()
        try:
            voices.append(await connect(url, partial(Voice, script=script)))
        except OSError as failed:
            crowd.refused += 1
            crowd.refusals_s.append(waited_s(began_s, failed))

    async with asyncio.TaskGroup() as tasks:
        saying = tasks.create_task(say_in_turn(voices))
        began_s = perf_counter()
        counted_from_s = began_s + SETTLE_S
        knocking = watching = None
        for number in count():
            due_s = began_s + number / per_s
            if due_s > counted_from_s + seconds:
                break
            await asyncio.sleep(max(0.0, due_s - perf_counter()))
            if knocking is None and due_s >= counted_from_s:
                knocking = tasks.create_task(knock(url, seconds))
                watching = tasks.create_task(_watch(server, crowd.memory))
            tasks.create_task(come(scripts[number % len(scripts)]))
        until_s = counted_from_s + seconds
        if knocking is not None and watching is not None:
            crowd.refusals_s += await knocking
            watching.cancel()
        while not all(voice.done or voice.closed.done() for voice in voices):  # noqa: ASYNC110 - they are many
            await asyncio.sleep(LOOK_EVERY_S)
        saying.cancel()
    if voices:
        await asyncio.wait({voice.closed for voice in voices}, timeout=CLOSE_TIMEOUT_S)
    for voice in voices:
        told = voice.told_
        within = [counted_from_s <= at < until_s for at in told.finals_at]
        crowd.finals += sum(within)
        crowd.waits_s += [wait_s for wait_s, counts in zip(told.final_waits_s, within, strict=True) if counts]
        crowd.broken += bool(told.errors) or told.audio_ms is None
    return crowd


async def _watch(server: RunningServer, memory: list[float]) -> None:
    while True:
        memory.append(await memory_bytes(server))
        await asyncio.sleep(LOOK_EVERY_S)


async def scaled(seconds: float) -> dict[str, float]:
    """Finals a second of one, two and four workers, eight sessions each, which speak as fast as they are heard."""
    figures: dict[str, float] = {}
    segments = round(seconds * 1000 / STEP_MS / PER_WORKER)
    pcm = b"".join(Script.of(9, segments * (BURST_S + PAUSE_S) + BURST_S, BURST_S, PAUSE_S).chunks)
    for workers in COUNTS:
        arguments = [*ONE_A_STEP, f"--workers={workers}", *MANY, *UNPACED, *OPEN_DOOR]
        with LocalServer(arguments) as server:
            await until_ready(server, workers)
            began_s = perf_counter()
            finals = await asyncio.gather(*(_flood(server, pcm) for _ in range(PER_WORKER * workers)))
            figures[f"finals_per_s_{workers}"] = sum(finals) / (perf_counter() - began_s)
    for workers in COUNTS[1:]:
        linear = workers * figures["finals_per_s_1"]
        figures[f"over_linear_{workers}"] = figures[f"finals_per_s_{workers}"] / linear
    return figures


async def _flood(server: RunningServer, pcm: bytes) -> int:
    """The finals of one session that is given its audio as fast as it is taken."""
    start = StartMessage(mode=Mode.OFFLINE)
    async with (
        NativeClient(server.address.websocket, start=start, resume=False) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def speak() -> None:
            for at in range(0, len(pcm), CHUNK_BYTES):
                await client.send(pcm[at : at + CHUNK_BYTES])
            await client.end()

        tasks.create_task(speak())
        return sum([isinstance(message, ResultMessage) and message.is_final async for message in client])
