"""How busy a worker of a cluster is, for the gateways that let sessions in."""

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic

from streamscribe.core.cluster_load import GatewayVoices, WorkerLoad
from streamscribe.core.ids import TenantId
from streamscribe.core.load import SETTLED_S, LoadGauge
from streamscribe.observe.load import EVENT_LOOP, StepFacts, step_load


class WorkerLoadMeter:
    """A gauge of the models' steps and the event loop, for the voices that it is told of. Reports from any thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._gauge = LoadGauge(clock())
        self._before: list[tuple[float, Mapping[int, int]]] = []

    def step_done(self, report: StepFacts) -> None:
        """A model ran a batch."""
        with self._lock:
            now = self._clock()
            self._gauge.step(report.name, step_load(report), now)
            if report.lag_s is not None:
                self._gauge.lagged(report.name, report.lag_s, report.live, now)

    def loop_lagged(self, seconds: float) -> None:
        """The event loop ran a timer so late."""
        with self._lock:
            self._gauge.lagged(EVENT_LOOP, seconds, 1, self._clock())

    def look(
        self,
        partitions: frozenset[int],
        voices: Mapping[int, int],
        *,
        outage: bool,
        late: frozenset[TenantId] = frozenset(),
    ) -> WorkerLoad:
        """What is to be told now, with so many voices of each gateway; to be called several times a second."""
        with self._lock:
            now = self._clock()
            self._gauge.add_voices(sum(voices.values()) - self._gauge.voices, now)
            models = tuple(self._gauge.measured(name, now) for name in self._gauge.names())
        self._before = [*(one for one in self._before if one[0] > now - SETTLED_S), (now, Counter(voices))]
        first = self._before[0][1]
        told = {number: GatewayVoices(count, max(0, count - first.get(number, 0))) for number, count in voices.items()}
        return WorkerLoad(partitions, told, models, outage, late)
