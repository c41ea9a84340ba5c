"""What a tenant at ten times its share costs another: B's finals beside A's ordinary load, and beside its flood.

A real server with the fake model, whose step of one segment has a fixed cost, so that its capacity is known. Sessions
say half a second of sound and ask for its final, once a second and evenly spread, whether the last one came or not; B's
time is from asking until the final is out. A's ordinary load and B's together take four fifths of the model; ten times
A's takes six times what there is. A's quotas are left open: only the model's shares protect B. Both take turns in one
run of the server, and the quantiles are over all turns of each.
"""

import asyncio
from array import array
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from math import sin
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop

from streamscribe.bench.load import CHUNK_BYTES, OPEN_DOOR, Latencies, LoadSession, allow_files, connect, quantile_ms
from streamscribe.bench.metrics import counted
from streamscribe.bench.report import Report, report
from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.control.keys import new_key

COST_MS = 50
QUOTA, FLOOD, OTHERS = 12, 120, 4
"""Sessions of A by its quota and at ten times that, and of B; each brings a segment a second."""
EVERY_S = 1.0
CHUNKS = 5
TURNS = 3
SETTLE_S = 3.0
LOOK_EVERY_S = 0.25
OPENED_PER_S = 100
CLOSE_TIMEOUT_S = 60.0
MANY = 1000
_START = b'{"type":"start","mode":"online"}'
_FLUSHED = b'{"type":"flushed"'
_TONE = array("h", (int(8000 * sin(0.07 * i)) for i in range(CHUNK_BYTES // 2))).tobytes()
_ARGUMENTS = (
    "--profile=fake",
    f"--set=model.fake_cost_ms={COST_MS}",
    "--set=model.max_batch_size=1",
    "--set=worker.partial_interval_ms=10000",
    "--set=limits.resume_window_s=0",
    *OPEN_DOOR,
)


def run(*, seconds: float) -> Report:
    """Measures for `seconds` beside each load of A."""
    allow_files(2 * MANY)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "tenants.yaml"
        a, b = (new_key(file, name, max_sessions=MANY) for name in ("a", "b"))
        with LocalServer([*_ARGUMENTS, f"--set=gateway.tenants_file={file}"]) as server:
            figures = uvloop.run(_measure(server, a, b, seconds / TURNS))
    told = {"cost_ms": COST_MS, "sessions": [QUOTA, FLOOD, OTHERS], "seconds": seconds}
    return report("neighbours", told, figures)


async def _measure(server: RunningServer, a: str, b: str, turn_s: float) -> dict[str, float]:
    waits: dict[str, list[float]] = {"quota": [], "flood": []}
    served: dict[str, list[int]] = {"quota": [], "flood": []}
    finals = 0
    latencies, url = Latencies(), server.address.websocket
    for _ in range(TURNS):
        for name, sessions in (("quota", QUOTA), ("flood", FLOOD)):
            while await counted(server.address.http, "funasr_active_sessions"):  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(LOOK_EVERY_S)
            others: list[float] = []
            mine: list[float] = []
            async with _crowd(url, a, sessions, latencies, others), _crowd(url, b, OTHERS, latencies, mine) as talkers:
                await asyncio.sleep(SETTLE_S)
                mine.clear()
                others.clear()
                await asyncio.sleep(turn_s)
                waits[name] += [*mine, *(wait_s for talker in talkers for wait_s in talker.waiting_s())]
                served[name].append(len(others))
                if name == "flood":
                    finals += len(mine)
    p50, p99 = ({name: quantile_ms(sorted(one), share) for name, one in waits.items()} for share in (0.5, 0.99))
    return {
        "quota_p50_ms": p50["quota"],
        "quota_p99_ms": p99["quota"],
        "flood_p50_ms": p50["flood"],
        "flood_p99_ms": p99["flood"],
        "p99_over_quota": p99["flood"] / p99["quota"],
        "finals": float(finals),
        "flood_finals_per_s": sum(served["flood"]) / (TURNS * turn_s),
        "lost_sessions": float(latencies.lost),
    }


class _Talker(LoadSession):
    """Notes how long each final took from its asking."""

    def __init__(self, host: str, path: str, latencies: Latencies, waits_s: list[float]) -> None:
        super().__init__(host, path, latencies, _START)
        self._waits_s = waits_s
        self._asked: deque[float] = deque()  # bounded by the bench's length

    def say(self) -> None:
        """Half a second of sound, and asks for its final."""
        for _ in range(CHUNKS):
            self.send_plain(_TONE)
        self._asked.append(perf_counter())
        self.flush()

    def waiting_s(self) -> list[float]:
        """How long it has waited by now for each final that was not told yet: who is never served waits, too."""
        now = perf_counter()
        return [now - asked for asked in self._asked]

    def told(self, payload: bytes, now: float) -> None:
        """Measures."""
        if payload.startswith(_FLUSHED):
            self._waits_s.append(now - self._asked.popleft())


@asynccontextmanager
async def _crowd(
    url: str, key: str, size: int, latencies: Latencies, waits_s: list[float]
) -> AsyncIterator[Sequence["_Talker"]]:
    """So many sessions that talk while the block runs."""
    make = partial(_talker, key=key, latencies=latencies, waits_s=waits_s)
    talkers: list[_Talker] = []
    for _ in range(size):
        talkers.append(await connect(url, make))
        await asyncio.sleep(1 / OPENED_PER_S)
    talking = asyncio.create_task(_talk(talkers))
    try:
        yield talkers
    finally:
        talking.cancel()
        for talker in talkers:
            talker.leave()
        await asyncio.wait({talker.closed for talker in talkers}, timeout=CLOSE_TIMEOUT_S)


def _talker(host: str, path: str, *, key: str, latencies: Latencies, waits_s: list[float]) -> _Talker:
    return _Talker(host, f"{path}?token={key}", latencies, waits_s)


async def _talk(talkers: Sequence[_Talker]) -> None:
    began_s = perf_counter()
    for number in count():
        due_s = began_s + number * EVERY_S / len(talkers)
        if (wait_s := due_s - perf_counter()) > 0:
            await asyncio.sleep(wait_s)
        talkers[number % len(talkers)].say()
