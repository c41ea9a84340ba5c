"""How many streams a gateway with one worker process keeps up with, beside one process that does all: small models.

Both climb the same ladder, a rung each in turn, until the limits of `bench streams` do not hold. The load is made on
the same cores.
"""

import tomllib
from importlib.resources import files
from math import nan

from streamscribe.bench.load import OPEN_DOOR, allow_files
from streamscribe.bench.report import OPERATORS
from streamscribe.bench.streams import OTHERS, measure
from streamscribe.client.local_server import LocalServer
from streamscribe.core.options import Latency, Mode

FIRST = 120
STEP = 1.1
SECONDS = 10.0
TRIES = 2
"""A rung that did not hold is tried once more: what else the machine does may have been it."""
LIMITS = ("partial_lag_p95_ms", "final_after_silence_p99_ms", "refused_sessions", "lost_sessions", "error_rate")
WAYS = {"one_process": 0, "gateway_and_worker": 1}


async def compared() -> dict[str, float]:
    """The highest rung of each, and their ratio."""
    reached = dict.fromkeys(WAYS, 0.0)
    climbing, count = list(WAYS), float(FIRST)
    figures: dict[str, float] = {}
    while climbing:
        for way in tuple(climbing):
            held = await _holds(way, round(count), figures)
            if held:
                reached[way] = round(count)
            else:
                climbing.remove(way)
        count *= STEP
    return {
        **reached,
        **figures,
        "over_one_process": reached["gateway_and_worker"] / reached["one_process"] if reached["one_process"] else nan,
    }


async def _holds(way: str, count: int, figures: dict[str, float]) -> bool:
    """Whether so many are kept up with; notes what the highest that held took."""
    allow_files(2 * count + OTHERS)
    bounds = (f"--set=limits.max_sessions={count}", f"--set=limits.max_tenant_sessions={count + OTHERS}")
    bars = tomllib.loads(files(__package__).joinpath("bars.toml").read_text())["streams"]
    for _ in range(TRIES):
        with LocalServer(["--profile=tiny", f"--workers={WAYS[way]}", *bounds, *OPEN_DOOR]) as server:
            measured = await measure(server, count, SECONDS, Mode.TWO_PASS, Latency.BALANCED)
        if all(OPERATORS[bars[name]["op"]](measured[name], float(bars[name]["bar"])) for name in LIMITS):
            figures |= {f"{way}_{name}": measured[name] for name in ("cores", "partial_lag_p95_ms", "load_lag_p99_ms")}
            return True
    return False
