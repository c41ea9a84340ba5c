"""Processes under chaos and under load: real ones, fake models with a cost, real-time sessions.

What a session should hear is what an undisturbed one of the same script heard before from the same server: finals of
each pass with their texts and times. Figures of a part begin with its name, over Kafka with `kafka` before it.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial

import uvloop

from streamscribe.bench.chaos_voice import Script
from streamscribe.bench.cluster_faults import WORKERS, frozen, killed, replaced
from streamscribe.bench.cluster_load import overloaded, scaled
from streamscribe.bench.cluster_proxy import besieged
from streamscribe.bench.cluster_streams import compared
from streamscribe.bench.kinds import ClusterPart
from streamscribe.bench.report import Report, report

Measurement = Callable[[], Coroutine[None, None, dict[str, float]]]


def run(*, parts: Sequence[ClusterPart], sessions: int, rolled: int, seconds: float, kafka: bool = False) -> Report:
    """Measures the parts: `sessions` that are killed or frozen, `rolled` whose processes are replaced, for `seconds`.

    With `kafka` over a broker and a Redis of its own. Raises SettingsError where these are not installed.
    """
    ways = _over_kafka(sessions, rolled, seconds) if kafka else _on_one_machine(sessions, rolled, seconds)
    named = {f"kafka_{part}" if kafka else f"{part}": part for part in parts}
    figures = {
        f"{name}_{figure}": value for name, part in named.items() for figure, value in uvloop.run(ways[part]()).items()
    }
    settings = {"parts": list(parts), "sessions": sessions, "rolled": rolled, "seconds": seconds, "kafka": kafka}
    return report("cluster", settings, figures, named)


def _on_one_machine(sessions: int, rolled: int, seconds: float) -> dict[ClusterPart, Measurement]:
    return {
        ClusterPart.KILL: partial(killed, sessions, seconds),
        ClusterPart.KILL_TINY: partial(killed, sessions, seconds, Script.spoken, "--profile=tiny"),
        ClusterPart.ROLL: partial(replaced, rolled, seconds),
        ClusterPart.FREEZE: partial(frozen, sessions, seconds),
        ClusterPart.OVERLOAD: partial(overloaded, seconds),
        ClusterPart.SCALE: partial(scaled, seconds / 2),
        ClusterPart.PROXY: partial(besieged, sessions, seconds, f"--workers={WORKERS}"),
        ClusterPart.STREAMS: compared,
    }


def _over_kafka(sessions: int, rolled: int, seconds: float) -> dict[ClusterPart, Measurement]:
    from streamscribe.bench import cluster_kafka as bench

    return {
        ClusterPart.KILL: partial(bench.killed, sessions, seconds),
        ClusterPart.ROLL: partial(bench.replaced, rolled, seconds),
        ClusterPart.FREEZE: partial(bench.frozen, sessions, seconds),
        ClusterPart.REDIS: partial(bench.without_redis, sessions),
        ClusterPart.BROKER: partial(bench.without_broker, sessions),
    }
