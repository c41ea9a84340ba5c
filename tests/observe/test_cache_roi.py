"""What the caches are worth, from their counts."""

from dataclasses import replace

import pytest

from streamscribe.observe.cache_roi import GIB, Advice, LevelCounts, returns

COUNTS = LevelCounts(
    "embeddings", looked_up=2000, found=500, saved_s=300, spent_s=60, memory_bytes=GIB // 4, disk_bytes=GIB // 4
)


def of(counts):
    return returns([counts], uptime_s=7200)[0]


def test_a_level_is_told_by_what_it_saves_net_by_hour_and_room():
    line = of(COUNTS)
    assert line.reuse == 0.25
    assert line.saved_s == 240
    assert line.saved_s_per_hour == 120
    assert line.saved_s_per_gib_hour == 240
    assert line.advice is Advice.KEEP


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"found": 19}, Advice.SWITCH_OFF),
        ({"found": 20}, Advice.KEEP),
        ({"saved_s": 60.0}, Advice.SWITCH_OFF),
        ({"looked_up": 999}, Advice.WAIT),
    ],
)
def test_what_finds_next_to_nothing_or_costs_more_than_it_saves_is_to_be_switched_off(change, advice):
    assert of(replace(COUNTS, **change)).advice is advice


def test_a_server_that_has_just_begun_is_told_without_rates():
    line = returns([LevelCounts("features", 0, 0, 0, 0, 0, 0)], uptime_s=0)[0]
    assert line.saved_s_per_hour == 0
    assert line.saved_s_per_gib_hour is None
    assert line.advice is Advice.WAIT
