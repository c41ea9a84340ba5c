"""What the encoder service's metrics say after a few facts."""

import pytest
from prometheus_client import CollectorRegistry

from streamscribe.cache.resting import Rest
from streamscribe.cache.stage_output import CacheStats, Eviction
from streamscribe.core.cache_worth import WorthPolicy
from streamscribe.encoder.encoding import EncodedStep, Lookup
from streamscribe.observe.encoder_metrics import EncoderMetrics


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return EncoderMetrics(registry)


def value(registry, name, **labels):
    return registry.get_sample_value(f"streamscribe_encoder_{name}", labels)


def test_reuse_counts_the_merged_beside_the_narrow_hit_ratio_and_bypassing_counts_in_neither(metrics, registry):
    for result in (Lookup.MISS, Lookup.MISS, Lookup.HIT, Lookup.MERGED, Lookup.INVALID, Lookup.BYPASS, Lookup.BYPASS):
        metrics.looked_up(result, 0.5 if result in (Lookup.HIT, Lookup.MERGED) else 0.0)
    assert {result: value(registry, "lookups_total", result=result.value) for result in Lookup} == {
        Lookup.MISS: 2,
        Lookup.HIT: 1,
        Lookup.MERGED: 1,
        Lookup.INVALID: 1,
        Lookup.BYPASS: 2,
    }
    assert value(registry, "hit_ratio") == 0.2
    assert value(registry, "reuse_ratio") == 0.4
    assert value(registry, "saved_seconds_total") == 1.0


def test_a_step_tells_its_batch_padding_wait_cost_and_failures(metrics, registry):
    metrics.encoded(EncodedStep(4, 0.25, 0.02, 0.5, 10.0, fallbacks=2, failed=1))
    assert value(registry, "batch_size_sum") == 4
    assert value(registry, "padded_ratio_sum") == 0.25
    assert value(registry, "queue_wait_ms_sum") == 20
    assert value(registry, "seconds_per_audio_second_sum") == 0.05
    assert value(registry, "fallbacks_total") == 2
    assert value(registry, "failures_total") == 1
    metrics.cancelled()
    assert value(registry, "cancellations_total") == 1


def test_the_cache_is_asked_at_each_rendering(metrics, registry):
    stats = [CacheStats(0, 0, {}), CacheStats(3, 4096, {Eviction.SPACE: 7})]
    metrics.cache_watched(lambda: stats[-1])
    assert value(registry, "cache_entries") == 3
    assert value(registry, "cache_bytes") == 4096
    assert value(registry, "cache_evictions_total", cause="space") == 7


def test_look_ups_of_features_are_told_as_they_are_at_each_rendering(metrics, registry):
    rest = Rest(lambda turn: None)
    metrics.levels_watched({"features": rest})
    for hit in (True, False, True):
        rest.count(found=hit)
    assert value(registry, "feature_lookups_total", result="hit") == 2
    assert value(registry, "feature_lookups_total", result="miss") == 1


def test_it_is_told_which_levels_rest(metrics, registry):
    idle, poor = Rest(lambda turn: None), Rest(lambda turn: None, WorthPolicy(window=2, patience=1))
    metrics.levels_watched({"embeddings": idle, "transcripts": poor})
    for _ in range(2):
        poor.count(found=False)
    levels = ("embeddings", "transcripts")
    assert [registry.get_sample_value("streamscribe_cache_resting", {"level": name}) for name in levels] == [0, 1]
