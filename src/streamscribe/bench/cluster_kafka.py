"""A cluster over Kafka and Redis that is harmed under live streams: what is lost, and for how long nothing comes."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import perf_counter

from streamscribe.bench.chaos_client import Resumer
from streamscribe.bench.chaos_voice import Script, Voice, held_against, say_in_turn
from streamscribe.bench.cluster_faults import (
    FREEZES,
    KILL_EVERY_S,
    SPARE_FILES,
    held_under,
    longest_wait_s,
    longest_waits_s,
    missing,
    undisturbed,
)
from streamscribe.bench.kafka_cluster import COST_MS, Cluster, kafka_cluster
from streamscribe.bench.load import CHUNK_S, OPEN_DOOR, OPEN_TIMEOUT_S, Refused, allow_files, connect, quantile_ms
from streamscribe.client.local_server import LocalServer
from streamscribe.client.native import SILENCE_TIMEOUT_S
from streamscribe.settings import StoreSettings

GATEWAYS = 2
WORKERS = 2
KILL_S = 15.0
"""What a kill takes at most, with the start of another worker and the group's calm after both: the broker that is
measured with never ends a join that a death crosses."""
LEASE_S = StoreSettings().lease_ttl_s
FREEZE_S = 12.0
"""What a freeze takes at most, with the return of the worker."""
FREEZE_ROUNDS = 4
"""Clusters one after the other, that in a minute each there are as many freezes as there should be: the broker that is
measured with takes longer for each fetch the more its log holds."""
AWAY_S = 30.0
CALM_S = 12.0
"""Before a harm."""
OPENED_PER_S = 25
KNOCK_EVERY_S = 1.0
RECOVERY_S = 20.0
GREETING = Script.of(1, 4.0, burst_s=1.5, pause_s=1.0)

Harm = Callable[[Cluster], Coroutine[None, None, None]]


async def killed(sessions: int, seconds: float) -> dict[str, float]:
    """A random worker is killed every five seconds, or when the group is calm again."""
    kills: list[tuple[float, float]] = []

    async def kill(cluster: Cluster) -> None:
        chance = random.Random(5)
        due_s = perf_counter() + KILL_EVERY_S
        until_s = due_s + seconds - KILL_EVERY_S
        while due_s < until_s:
            await asyncio.sleep(max(0.0, due_s - perf_counter()))
            worker = cluster.workers.pop(chance.randrange(len(cluster.workers)))
            moved = await worker.counted("funasr_active_streams")
            kills.append((perf_counter(), moved))
            worker.signal(signal.SIGKILL)
            await cluster.settled()
            await cluster.add_workers(1)
            due_s = max(due_s + KILL_EVERY_S, perf_counter())

    figures, voices = await _under(kill, sessions, seconds, workers=WORKERS + 1)
    waits_s = sorted(wait_s for at, moved in kills for wait_s in longest_waits_s(voices, at, moved))
    return figures | {
        "kills": float(len(kills)),
        "missing_kills": missing(len(kills), seconds / KILL_S),
        "moved_sessions": sum(moved for _, moved in kills),
        "next_text_p50_ms": quantile_ms(waits_s, 0.5),
        "next_text_p95_ms": quantile_ms(waits_s, 0.95),
    }


async def frozen(sessions: int, seconds: float) -> dict[str, float]:
    """A worker is frozen for three times a lease, then goes on; again and again, in rounds of a cluster each."""
    allow_files(sessions + SPARE_FILES)
    expected = await _undisturbed(sessions, seconds)
    freezes = 0
    fenced: dict[Cluster, float] = {}

    async def freeze(cluster: Cluster) -> None:
        nonlocal freezes
        chance = random.Random(5)
        while True:
            await cluster.settled()
            worker = chance.choice(cluster.workers)
            worker.signal(signal.SIGSTOP)
            await asyncio.sleep(3 * LEASE_S)
            worker.signal(signal.SIGCONT)
            freezes += 1
            fenced[cluster] = await _fenced(cluster)

    heard = Counter[str]()
    for _ in range(FREEZE_ROUNDS):
        async with kafka_cluster(GATEWAYS, WORKERS + 1) as cluster:
            figures, _ = await held_under(partial(freeze, cluster), cluster.urls, expected, sessions)
            heard.update(figures)
    return heard | {
        "freezes": float(freezes),
        "missing_freezes": missing(freezes, min(FREEZES, FREEZE_ROUNDS * seconds / FREEZE_S)),
        "fenced": sum(fenced.values()),
    }


async def _fenced(cluster: Cluster) -> float:
    """What gateways dropped, and what the store refused, of workers that had lost their sessions."""
    told = [one.counted("streamscribe_fenced_events(?:_total)?") for one in cluster.gateways.values()]
    told += [one.counted("streamscribe_store_fenced(?:_total)?") for one in cluster.workers]
    return sum(await asyncio.gather(*told))


async def replaced(sessions: int, seconds: float) -> dict[str, float]:
    """Every gateway and every worker is told to end, one after the other, and another one takes its place."""
    allow_files(4 * sessions + SPARE_FILES)
    codes: list[int] = []
    expected = await _undisturbed(sessions, seconds)
    voices = [Resumer(expected[number % len(expected)].script) for number in range(sessions)]
    async with kafka_cluster(GATEWAYS, WORKERS) as cluster, asyncio.TaskGroup() as tasks:
        for number, voice in enumerate(voices):
            urls = cluster.urls[number % GATEWAYS :] + cluster.urls[: number % GATEWAYS]
            tasks.create_task(voice.say(urls, silence_timeout_s=SILENCE_TIMEOUT_S))
            await asyncio.sleep(1 / OPENED_PER_S)
        began_s = perf_counter()
        for number in range(GATEWAYS):
            codes.append(await cluster.gateways[number].stop())
            await cluster.add_gateway(number)
        for _ in range(WORKERS):
            await cluster.settled()
            codes.append(await cluster.workers.pop(0).stop())
            await cluster.add_workers(1)
        took_s = perf_counter() - began_s
        spoke = sum(not voice.whole for voice in voices)
    silences_s = sorted(silence_s for voice in voices for silence_s in voice.silences_s)
    return held_against(expected, voices) | {
        "resumes": float(len(silences_s)),
        "resumed_p50_ms": quantile_ms(silences_s, 0.5),
        "resumed_max_ms": quantile_ms(silences_s, 1.0),
        "bad_exits": float(sum(map(bool, codes))),
        "exits": float(len(codes)),
        "took_s": took_s,
        "still_spoke": float(spoke),
    }


async def without_redis(sessions: int) -> dict[str, float]:
    """Redis is frozen for a while; later it is killed, and begins anew with nothing."""
    figures: dict[str, float] = {}
    whiles: dict[str, tuple[float, float]] = {}

    async def harm(cluster: Cluster) -> None:
        for name, away in (("frozen", cluster.redis.frozen), ("killed", cluster.redis.killed)):
            since = perf_counter()
            await asyncio.sleep(CALM_S)
            whiles.setdefault("calm", (since, perf_counter()))
            async with away():
                since = perf_counter()
                figures[f"{name}_newcomer_answered_ms"] = 1000 * await _answered_s(cluster.urls[0], AWAY_S)
                whiles[name] = since, perf_counter()
            figures[f"{name}_recovered_ms"] = 1000 * await _first_text_s(cluster.urls[0])

    heard, voices = await _under(harm, sessions, 2 * (CALM_S + AWAY_S + RECOVERY_S), workers=WORKERS)
    waits = {f"{name}_longest_wait_ms": 1000 * longest_wait_s(voices, *between) for name, between in whiles.items()}
    return heard | figures | waits


async def without_broker(sessions: int) -> dict[str, float]:
    """The broker answers nothing for a while."""
    figures: dict[str, float] = {}
    back_at = 0.0

    async def harm(cluster: Cluster) -> None:
        nonlocal back_at
        await asyncio.sleep(CALM_S)
        async with cluster.broker.frozen():
            await asyncio.sleep(AWAY_S)
        back_at = perf_counter()
        figures["recovered_ms"] = 1000 * await _first_text_s(cluster.urls[0])

    heard, voices = await _under(harm, sessions, CALM_S + AWAY_S + RECOVERY_S, workers=WORKERS)
    waits_s = sorted(next((at - back_at for at in voice.told_.texts_at if at > back_at), AWAY_S) for voice in voices)
    return (
        heard | figures | {"next_text_p50_ms": quantile_ms(waits_s, 0.5), "next_text_max_ms": quantile_ms(waits_s, 1)}
    )


async def _under(harm: Harm, sessions: int, seconds: float, *, workers: int) -> tuple[dict[str, float], list[Voice]]:
    allow_files(sessions + SPARE_FILES)
    expected = await _undisturbed(sessions, seconds)
    async with kafka_cluster(GATEWAYS, workers) as cluster:
        return await held_under(partial(harm, cluster), cluster.urls, expected, sessions)


async def _undisturbed(sessions: int, seconds: float) -> list[Voice]:
    """In one process: what they hear is no bus' doing, and the broker, which takes longer for each fetch the more its
    log holds, begins with the sessions that are measured."""
    with LocalServer(["--profile=fake", f"--set=model.fake_cost_ms={COST_MS}", *OPEN_DOOR]) as server:
        return await undisturbed(server.address.websocket, sessions, seconds)


async def _answered_s(url: str, seconds: float) -> float:
    """How long a newcomer waits at most until he is let in or told why not, of one after the other for so long."""
    longest_s, until_s = 0.0, perf_counter() + seconds
    while (began_s := perf_counter()) < until_s:
        try:
            (await connect(url, partial(Voice, script=GREETING))).leave()
            waited_s = perf_counter() - began_s
        except Refused as refused:
            waited_s = refused.at - began_s
        except OSError:
            waited_s = OPEN_TIMEOUT_S
        longest_s = max(longest_s, waited_s)
        await asyncio.sleep(KNOCK_EVERY_S)
    return longest_s


async def _first_text_s(url: str) -> float:
    """How long a newcomer, who comes again when he is turned away, speaks until he is told the first text."""
    began_s = perf_counter()
    while True:
        with suppress(OSError):
            voice = await connect(url, partial(Voice, script=GREETING))
            saying = asyncio.create_task(say_in_turn([voice]))
            await voice.closed
            saying.cancel()
            if voice.told_.texts_at:
                return voice.told_.texts_at[0] - began_s
        await asyncio.sleep(CHUNK_S)
