"""How many real-time streams a server keeps up with: many sessions that speak at once, the load made in this process.

Each session says recordings one after the other, with pauses, in chunks of 100 ms in real time, and reads what comes
back. Two latencies are taken. *Partial lag*: from the handing over of the chunk that holds the last sample a partial
read (its `end_ms`, and what a frame reaches beyond) until the partial was read here; the model's look-ahead lies before
that and is not counted. *Final*: from the handing over of the last sample of speech until the pass-1 final was read
here, less the silence that is configured to end a segment. What was heard is compared with what was said, so that a
server that keeps up by hearing nothing is found out. The server has no place for one session more: somebody knocks all
the while, and how long he waits to be told when to come back is the third.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from time import perf_counter

import uvloop

from streamscribe.bench.knocking import knock
from streamscribe.bench.load import CHUNK_S, OPEN_DOOR, allow_files, connect, quantile_ms
from streamscribe.bench.recordings import recordings
from streamscribe.bench.report import Report, report
from streamscribe.bench.speaker import Heard, Script, Speaker
from streamscribe.bench.text import corpus_error_rate
from streamscribe.client.local_server import LocalServer, RunningServer

SILENCE_MS = 800
SETTLE_S = 5.0
OPENED_PER_S = 50
END_TIMEOUT_S = 30.0
MIN_SLEEP_S = 0.0005
OTHERS = 100


def run(*, sessions: int, seconds: float, mode: str, latency: str, sets: Sequence[str] = ()) -> Report:
    """Starts a server, loads it for `seconds` after all are open and settled, and reports."""
    allow_files(sessions + OTHERS)
    bounds = [f"--set=limits.max_sessions={sessions}", f"--set=limits.max_tenant_sessions={sessions + OTHERS}"]
    bounds += OPEN_DOOR  # how the server does beyond its capacity is to be seen
    with LocalServer(["--profile", "tiny", *bounds, *(f"--set={one}" for one in sets)]) as server:
        figures = uvloop.run(measure(server, sessions, seconds, mode, latency))
    settings = {"sessions": sessions, "seconds": seconds, "mode": mode, "latency": latency}
    return report("streams", settings, figures)


async def measure(server: RunningServer, count: int, seconds: float, mode: str, latency: str) -> dict[str, float]:
    """The figures of so many sessions at a server that has no place for more."""
    start = json.dumps(
        {
            "type": "start",
            "mode": mode,
            "latency": latency,
            "endpoint": {"silence_ms": SILENCE_MS},
            "itn": False,
            "punctuation": False,
        }
    ).encode()
    heard = Heard()
    said = recordings()
    opening_s = count / OPENED_PER_S
    scripts = [Script([*said[at:], *said[:at]], opening_s + SETTLE_S + seconds) for at in range(min(count, len(said)))]
    speakers: list[Speaker] = []
    lags_s: list[float] = []
    speaking = asyncio.create_task(_speak(speakers, lags_s))
    for script in islice(cycle(scripts), count):
        try:
            make = partial(Speaker, heard=heard, script=script, start=start, silence_s=SILENCE_MS / 1000)
            speakers.append(await connect(server.address.websocket, make))
        except OSError:
            heard.refused += 1
        await asyncio.sleep(1 / OPENED_PER_S)
    await asyncio.sleep(SETTLE_S)
    lags_s.clear()
    cpu_before_s, began = server.cpu_s, perf_counter()
    for speaker in speakers:
        speaker.measuring = True
    refusals_s = await knock(server.address.websocket, seconds)
    cores = (server.cpu_s - cpu_before_s) / (perf_counter() - began)
    memory_bytes = server.memory_bytes()
    speaking.cancel()
    for speaker in speakers:
        speaker.measuring = False
        heard.lost += speaker.closed.done()
        speaker.end()
    if speakers:
        await asyncio.wait({speaker.closed for speaker in speakers}, timeout=END_TIMEOUT_S)
    return {
        "sessions": float(len(speakers)),
        "refused_sessions": float(heard.refused),
        "lost_sessions": float(heard.lost),
        "partials": float(len(heard.partial_lags_s)),
        "partial_lag_p50_ms": quantile_ms(sorted(heard.partial_lags_s), 0.50),
        "partial_lag_p95_ms": quantile_ms(sorted(heard.partial_lags_s), 0.95),
        "finals": float(len(heard.finals_s)),
        "final_after_silence_p50_ms": quantile_ms(sorted(heard.finals_s), 0.50),
        "final_after_silence_p99_ms": quantile_ms(sorted(heard.finals_s), 0.99),
        "refusals": float(len(refusals_s)),
        "refusal_p99_ms": quantile_ms(sorted(refusals_s), 0.99),
        "cores": cores,
        "memory_mib": memory_bytes / 2**20,
        "load_lag_p99_ms": quantile_ms(sorted(lags_s), 0.99),
        "error_rate": _error_rate(speakers),
    }


async def _speak(speakers: Sequence[Speaker], lags_s: list[float]) -> None:
    """Every speaker's chunks in real time, evenly spread over the length of a chunk, until cancelled."""
    due = perf_counter()
    while True:
        present = list(speakers)
        for speaker in present:
            due += CHUNK_S / len(present)
            if (wait_s := due - perf_counter()) > MIN_SLEEP_S:
                await asyncio.sleep(wait_s)
            lags_s.append(max(0.0, perf_counter() - due))
            speaker.speak()
        if not present:
            await asyncio.sleep(CHUNK_S)
            due = perf_counter()


def _error_rate(speakers: Sequence[Speaker]) -> float:
    """Of all sessions' last texts against what they said."""
    pairs = [pair for pair in (speaker.outcome() for speaker in speakers) if pair[0]]
    return corpus_error_rate([said for said, _ in pairs], [text for _, text in pairs]) if pairs else 1.0
