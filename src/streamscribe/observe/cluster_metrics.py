"""What a process of a cluster knows of its bus and its store, asked for at each rendering."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

Read = Callable[[], float]

GAUGES = {
    "streamscribe_bus_partitions": "Partitions of audio-chunks that this worker has.",
    "streamscribe_bus_unsent_bytes": "What was told and is not in the log yet.",
}
COUNTERS = {
    "streamscribe_fenced_events": "Events dropped of workers that had lost their sessions.",
    "streamscribe_dead_letters": "Records or results that could not be read.",
    "streamscribe_lost_sessions": "Sessions that another worker had taken.",
    "streamscribe_dropped_results": "Partials and progress not told because the brokers did not keep up.",
    "streamscribe_store_fenced": "Writes that the store refused of a former owner.",
    "streamscribe_store_failures": "Calls that the store did not answer.",
}


class ClusterMetrics:
    """A collector of those figures that the process has."""

    def __init__(self, registry: CollectorRegistry, figures: Mapping[str, Read]) -> None:
        self._figures = figures
        registry.register(self)

    def collect(self) -> list[Metric]:
        """One sample of each."""
        gauges = [GaugeMetricFamily(n, d, self._figures[n]()) for n, d in GAUGES.items() if n in self._figures]
        counters = [CounterMetricFamily(n, d, self._figures[n]()) for n, d in COUNTERS.items() if n in self._figures]
        return [*gauges, *counters]
