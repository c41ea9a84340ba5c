"""Worker processes under chaos and under load: real processes, fake models with a cost, real-time sessions.

What a session should hear is what an undisturbed one of the same script heard before from the same server: finals of
each pass with their texts and times. Figures of a part begin with its name.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial

import uvloop

from streamscribe.bench.cluster_faults import WORKERS, frozen, killed, replaced
from streamscribe.bench.cluster_load import overloaded, scaled
from streamscribe.bench.cluster_proxy import besieged
from streamscribe.bench.kinds import ClusterPart
from streamscribe.bench.report import Report, report

Measurement = Callable[[], Coroutine[None, None, dict[str, float]]]


def run(*, parts: Sequence[ClusterPart], sessions: int, rolled: int, seconds: float) -> Report:
    """Measures the parts: `sessions` that are killed or frozen, `rolled` whose workers are replaced, for `seconds`."""
    ways: dict[ClusterPart, Measurement] = {
        ClusterPart.KILL: partial(killed, sessions, seconds),
        ClusterPart.ROLL: partial(replaced, rolled, seconds),
        ClusterPart.FREEZE: partial(frozen, sessions, seconds),
        ClusterPart.OVERLOAD: partial(overloaded, seconds),
        ClusterPart.SCALE: partial(scaled, seconds / 2),
        ClusterPart.PROXY: partial(besieged, sessions, seconds, f"--workers={WORKERS}"),
    }
    figures = {f"{part}_{name}": value for part in parts for name, value in uvloop.run(ways[part]()).items()}
    settings = {"parts": list(parts), "sessions": sessions, "rolled": rolled, "seconds": seconds}
    return report("cluster", settings, figures)
