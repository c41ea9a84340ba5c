"""What a process of a cluster knows of its bus and its store, asked for at each rendering."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

Read = Callable[[], float]

GAUGES = {
    "streamscribe_known_workers": "Workers that tell this gateway their load.",
    "streamscribe_bus_partitions": "Partitions of audio-chunks that this worker has.",
    "streamscribe_bus_unsent_bytes": "What was told and is not in the log yet.",
    "streamscribe_finals_pending": "Segments of this worker that its finalizers have not answered yet.",
    "streamscribe_finals_oldest_seconds": "How long the oldest live one has waited that no other text can be told of.",
    "streamscribe_finalizer_partitions": "Partitions of offline-finalize that this finalizer has.",
    "streamscribe_finalizer_waiting_requests": "Segments of those partitions that are not answered.",
    "streamscribe_finalizer_waiting_audio_seconds": "About how much audio they have.",
    "streamscribe_finalizer_oldest_seconds": "How long the oldest of them that was read has waited.",
}
COUNTERS = {
    "streamscribe_fenced_events": "Events dropped of workers that had lost their sessions.",
    "streamscribe_moved_sessions": "Sessions that came to this gateway from another.",
    "streamscribe_dead_letters": "Records or results that could not be read, or that ended workers.",
    "streamscribe_taken_over_sessions": "Sessions that were another worker's and went on at this one.",
    "streamscribe_lost_sessions": "Sessions that another worker had taken.",
    "streamscribe_orphaned_sessions": "Sessions ended because no gateway had them any more.",
    "streamscribe_quarantined_sessions": "Sessions at whose record two workers ended.",
    "streamscribe_dropped_results": "Partials and progress not told because the brokers did not keep up.",
    "streamscribe_finals_answered": "Segments of this worker that finalizers have answered.",
    "streamscribe_finals_timed_out": "Segments of this worker that no finalizer answered in time.",
    "streamscribe_finals_dropped": "Answers of finalizers that came again, or too late.",
    "streamscribe_finalizer_answered": "Answers of this finalizer that are in the log.",
    "streamscribe_finalizer_repeated": "Requests that it answered without hearing them again.",
    "streamscribe_finalizer_expired": "Requests that nobody waited for any more.",
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
