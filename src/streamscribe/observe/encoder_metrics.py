"""What is counted of the encoder service: who was spared an encoding, and what the others cost."""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_BATCH = (1, 2, 4, 8, 16, 32, 64, 128)
_SHARE = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
_WAIT_MS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
_PER_AUDIO_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
_HIT, _MERGED, _BYPASS = "hit", "merged", "bypass"
_FEATURES = "features"


class EncodedStepFacts(Protocol):
    """What a step of the encoder reports (`encoder.encoding.EncodedStep`)."""

    @property
    def batch_size(self) -> int:
        """Segments in the step."""
        ...

    @property
    def padded_share(self) -> float:
        """The part of what was read that was padding."""
        ...

    @property
    def queue_wait_s(self) -> float:
        """The longest wait of them."""
        ...

    @property
    def encode_s(self) -> float:
        """What the step took."""
        ...

    @property
    def audio_s(self) -> float:
        """Audio in it."""
        ...

    @property
    def fallbacks(self) -> int:
        """Passes that it took more because some failed."""
        ...

    @property
    def failed(self) -> int:
        """Segments that got an error."""
        ...


class CacheFacts(Protocol):
    """What a cache holds (`cache.stage_output.CacheStats`)."""

    @property
    def entries(self) -> int:
        """Values."""
        ...

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        ...

    @property
    def evictions(self) -> Mapping[Any, int]:
        """What has left, by cause (a string of an enumeration)."""
        ...


class LevelFacts(Protocol):
    """What is told of a level: `cache.stage_output.StageOutputCache`, `cache.resting.Rest`."""

    @property
    def asked(self) -> "AskedFacts":
        """Its look-ups."""
        ...

    @property
    def rests(self) -> bool:
        """Whether it is left alone for a while."""
        ...


class AskedFacts(Protocol):
    """How often a cache was asked (`cache.tally.Asked`)."""

    @property
    def hits(self) -> int:
        """Look-ups that found something."""
        ...

    @property
    def misses(self) -> int:
        """Those that did not."""
        ...


class EncoderMetrics:
    """Counts in a registry; safe to call from any thread. Warm-ups and health probes don't come here.

    Ratios are since the start, of all requests that could be spared: drafts and what nothing is kept of are left out.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lookups = Counter(
            "streamscribe_encoder_lookups", "Requests by how they came to an embedding.", ["result"], registry=registry
        )
        self._hit_ratio = Gauge(
            "streamscribe_encoder_hit_ratio", "Of requests looked up, those found in the cache.", registry=registry
        )
        self._reuse_ratio = Gauge(
            "streamscribe_encoder_reuse_ratio",
            "Of requests looked up, those not encoded: found in the cache, or merged with one on its way.",
            registry=registry,
        )
        self._saved = Counter(
            "streamscribe_encoder_saved_seconds", "Encode seconds that reuse has saved, estimated.", registry=registry
        )
        self._batch = Histogram(
            "streamscribe_encoder_batch_size", "Segments in a step.", buckets=_BATCH, registry=registry
        )
        self._padded = Histogram(
            "streamscribe_encoder_padded_ratio",
            "Padding in what a step reads.",
            buckets=_SHARE,
            registry=registry,
        )
        self._wait = Histogram(
            "streamscribe_encoder_queue_wait_ms",
            "The longest wait of a step's segments.",
            buckets=_WAIT_MS,
            registry=registry,
        )
        self._per_audio = Histogram(
            "streamscribe_encoder_seconds_per_audio_second",
            "Encode seconds for each second of audio.",
            buckets=_PER_AUDIO_S,
            registry=registry,
        )
        self._read = Summary(
            "streamscribe_encoder_feature_seconds", "What a front end took to read a segment.", registry=registry
        )
        self._fallbacks = Counter(
            "streamscribe_encoder_fallbacks", "Passes repeated by halves after a failure.", registry=registry
        )
        self._failures = Counter("streamscribe_encoder_failures", "Segments not encoded.", registry=registry)
        self._cancellations = Counter(
            "streamscribe_encoder_cancellations", "Encodings given up: their last requester left.", registry=registry
        )
        self._counts = {_HIT: 0, _MERGED: 0}
        self._sought = 0
        self._lock = Lock()

    def looked_up(self, result: str, saved_s: float) -> None:
        """A request has its embedding, and was spared about so many seconds of encoding."""
        self._lookups.labels(result).inc()
        self._saved.inc(saved_s)
        if result == _BYPASS:
            return
        with self._lock:
            self._sought += 1
            if result in self._counts:
                self._counts[result] += 1
            self._hit_ratio.set(self._counts[_HIT] / self._sought)
            self._reuse_ratio.set((self._counts[_HIT] + self._counts[_MERGED]) / self._sought)

    def read(self, spent_s: float) -> None:
        """The front end has read a segment, which took so long."""
        self._read.observe(spent_s)

    def encoded(self, step: EncodedStepFacts) -> None:
        """A step is over."""
        self._batch.observe(step.batch_size)
        self._padded.observe(step.padded_share)
        self._wait.observe(step.queue_wait_s * 1000)
        if step.audio_s > 0:
            self._per_audio.observe(step.encode_s / step.audio_s)
        self._fallbacks.inc(step.fallbacks)
        self._failures.inc(step.failed)

    def cancelled(self) -> None:
        """The last who waited for an encoding has left."""
        self._cancellations.inc()

    def cache_watched(self, stats: Callable[[], CacheFacts]) -> None:
        """The cache of embeddings, which is asked at each rendering."""
        self._registry.register(_CacheCollector(stats))

    def levels_watched(self, levels: Mapping[str, LevelFacts]) -> None:
        """All levels by name, which are asked at each rendering."""
        self._registry.register(_LevelCollector(levels))


class _CacheCollector(Collector):
    """What the cache holds and has lost, of one moment."""

    def __init__(self, stats: Callable[[], CacheFacts]) -> None:
        self._stats = stats

    def collect(self) -> list[Metric]:
        """The families, filled now."""
        stats = self._stats()
        evictions = CounterMetricFamily(
            "streamscribe_encoder_cache_evictions", "Embeddings that left the cache, by cause.", labels=["cause"]
        )
        for cause, count in stats.evictions.items():
            evictions.add_metric([str(cause)], count)
        return [
            GaugeMetricFamily("streamscribe_encoder_cache_entries", "Embeddings in the cache.", stats.entries),
            GaugeMetricFamily("streamscribe_encoder_cache_bytes", "Bytes of them.", stats.size_bytes),
            evictions,
        ]


class _LevelCollector(Collector):
    """Which levels rest, and how often features were looked up until one moment."""

    def __init__(self, levels: Mapping[str, LevelFacts]) -> None:
        self._levels = levels

    def collect(self) -> list[Metric]:
        """The families, filled now."""
        resting = GaugeMetricFamily(
            "streamscribe_cache_resting",
            "1 while a level is neither asked nor filled, as next to nothing was found there.",
            labels=["level"],
        )
        for name, level in self._levels.items():
            resting.add_metric([name], level.rests)
        lookups = CounterMetricFamily(
            "streamscribe_encoder_feature_lookups", "Segments looked up among the features kept.", labels=["result"]
        )
        if (features := self._levels.get(_FEATURES)) is not None:
            asked = features.asked
            lookups.add_metric(["hit"], asked.hits)
            lookups.add_metric(["miss"], asked.misses)
        return [resting, lookups]
