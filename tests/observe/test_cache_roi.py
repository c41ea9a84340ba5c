"""What the caches are worth, from a server's figures."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streamscribe.models.replica import StepReport
from streamscribe.observe.cache_roi import GIB, Advice, LevelCounts, read_counts, returns
from streamscribe.observe.encoder_metrics import EncoderMetrics
from streamscribe.observe.metrics import Metrics
from streamscribe.wire.rest_cache import CacheState, Level, Tier

COUNTS = LevelCounts("embeddings", looked_up=2000, found=500, saved_s=240, memory_bytes=GIB // 4, disk_bytes=GIB // 4)


def of(counts):
    return returns([counts])[0]


def test_a_level_is_told_by_what_it_saves_and_what_room_it_takes_for_that():
    line = of(COUNTS)
    assert line.reuse == 0.25
    assert line.saved_s == 240
    assert line.saved_s_per_gib == 480
    assert line.advice is Advice.KEEP


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"found": 19}, Advice.SWITCH_OFF),
        ({"found": 20}, Advice.KEEP),
        ({"looked_up": 1999}, Advice.WAIT),
        ({"found": 19, "resting": True}, Advice.RESTS),
        ({"looked_up": 10, "resting": True}, Advice.RESTS),
    ],
)
def test_what_finds_next_to_nothing_is_to_be_switched_off(change, advice):
    assert of(replace(COUNTS, **change)).advice is advice


def test_a_level_that_has_not_begun_is_told_without_a_rate():
    line = of(LevelCounts("features", 0, 0, 0, 0, 0))
    assert line.saved_s_per_gib is None
    assert line.advice is Advice.WAIT


def test_embeddings_are_credited_with_their_hits_and_not_with_merged_requests():
    registry = CollectorRegistry()
    metrics = EncoderMetrics(registry)
    for result, saved_s, times in (("hit", 0.5, 6), ("merged", 0.5, 2), ("miss", 0, 12), ("bypass", 0, 5)):
        for _ in range(times):
            metrics.looked_up(result, saved_s)
    state = CacheState((Level("embeddings", (Tier("memory", True, 3, 3000),), hits=6, misses=12, resting=True),))
    assert read_counts(state, generate_latest(registry).decode()) == [
        LevelCounts("embeddings", 18, 6, 3.0, 3000, 0, resting=True)
    ]


def test_a_transcript_saves_all_that_models_do_for_a_segment():
    metrics = Metrics()
    for model, step_s, size in (
        ("encoder", 1.0, 4),
        ("language-model", 3.0, 5),
        ("language-model", 1.0, 5),
        ("vad", 9.0, 9),
    ):
        metrics.step_done(StepReport(model, size, queue_wait_s=0, step_s=step_s, audio_s=1, failed=0))
    tiers = (Tier("memory", True, 2, 100), Tier("disk", True, 2, 150), Tier("redis", False))
    state = CacheState((Level("transcripts", tiers, 60.0, hits=4, misses=6),))
    text = metrics.render()[0]
    assert read_counts(state, text if isinstance(text, str) else text.decode()) == [
        LevelCounts("transcripts", 10, 4, 2.0, 100, 150)
    ]


def test_features_save_what_front_ends_take_for_a_segment():
    registry = CollectorRegistry()
    metrics = EncoderMetrics(registry)
    for spent_s in (0.01, 0.03):
        metrics.read(spent_s)
    state = CacheState((Level("features", (Tier("memory", True, 2, 100),), 60.0, hits=50, misses=2),))
    (counts,) = read_counts(state, generate_latest(registry).decode())
    assert counts.saved_s == pytest.approx(50 * 0.02)


def test_a_server_that_tells_no_figures_has_no_lines_for_what_it_does_not_count():
    assert read_counts(CacheState((Level("transcripts", (Tier("memory"),), 60.0),)), "") == []
