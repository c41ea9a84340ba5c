"""What each level of the caches saves, beside what it takes, and what to switch off: from a server's figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client.parser import text_string_to_metric_families

from streamscribe.core.cache_worth import USUAL
from streamscribe.wire.rest_cache import CacheState, Level

ENOUGH = USUAL.window * USUAL.patience
"""Fewer look-ups say nothing, here as for a cache that would rest: one that has just begun is empty."""
LEAST_REUSE = USUAL.high
"""What lets a cache stay that was tried again."""
GIB = 2**30

_LOOKUPS = "streamscribe_encoder_lookups_total"
_SAVED = "streamscribe_encoder_saved_seconds_total"
_STEP_SECONDS = "streamscribe_step_seconds_sum"
_STEP_REQUESTS = "streamscribe_step_batch_size_sum"
_FEATURE_SECONDS = "streamscribe_encoder_feature_seconds"
_RECOGNISERS = ("recognizer", "language-model")
_OF_A_SEGMENT = (*_RECOGNISERS, "encoder", "punctuation")
_MEMORY = "memory"


class Advice(StrEnum):
    """What to do with a level."""

    KEEP = "keep"
    SWITCH_OFF = "switch off"
    WAIT = "wait"
    """Too little was looked up to say."""
    RESTS = "rests"
    """It has switched itself off for a while."""


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """Of one level: look-ups since the server's start and how many were found, about how many seconds of models and
    front ends those were spared, and what it takes in memory, and on disk or in Redis."""

    level: str
    looked_up: int
    found: int
    saved_s: float
    memory_bytes: int
    disk_bytes: int
    resting: bool = False


@dataclass(frozen=True, slots=True)
class LevelReturn:
    """One line of the table; `reuse` is the share of look-ups that found something."""

    level: str
    reuse: float
    saved_s: float
    memory_bytes: int
    disk_bytes: int
    saved_s_per_gib: float | None
    advice: Advice


def returns(levels: Sequence[LevelCounts]) -> list[LevelReturn]:
    """A line for each level, in order. One is worth its room if at least a hundredth of its look-ups find."""
    return [_return(counts) for counts in levels]


def read_counts(state: CacheState, exposition: str) -> list[LevelCounts]:
    """The levels of a server by what it answers on `/v1/cache` and `/metrics`; none where it tells no figures."""
    seen = _Seen(exposition)
    return [_counts(level, seen) for level in state.levels if level.hits is not None]


class _Seen:
    """A server's counters."""

    def __init__(self, exposition: str) -> None:
        self._values: dict[tuple[str, str], float] = {}
        for family in text_string_to_metric_families(exposition):
            for sample in family.samples:
                label = sample.labels.get("model") or sample.labels.get("result") or ""
                self._values[sample.name, label] = sample.value

    def of(self, name: str, label: str = "") -> float:
        return self._values.get((name, label), 0.0)

    def mean(self, seconds: float, times: float) -> float:
        return seconds / times if times else 0.0


def _counts(level: Level, seen: _Seen) -> LevelCounts:
    match level.level:
        case "embeddings":
            each_s = seen.mean(seen.of(_SAVED), seen.of(_LOOKUPS, "hit") + seen.of(_LOOKUPS, "merged"))
        case "features":
            each_s = seen.mean(seen.of(f"{_FEATURE_SECONDS}_sum"), seen.of(f"{_FEATURE_SECONDS}_count"))
        case _:
            segments = sum(seen.of(_STEP_REQUESTS, model) for model in _RECOGNISERS)
            each_s = seen.mean(sum(seen.of(_STEP_SECONDS, model) for model in _OF_A_SEGMENT), segments)
    found = level.hits or 0
    return _told(level, found + (level.misses or 0), found, each_s)


def _told(level: Level, looked_up: int, found: int, each_s: float) -> LevelCounts:
    in_memory = sum(tier.bytes or 0 for tier in level.tiers if tier.tier == _MEMORY)
    beyond = sum(tier.bytes or 0 for tier in level.tiers if tier.tier != _MEMORY)
    return LevelCounts(level.level, looked_up, found, found * each_s, in_memory, beyond, bool(level.resting))


def _return(counts: LevelCounts) -> LevelReturn:
    reuse = counts.found / counts.looked_up if counts.looked_up else 0.0
    size_bytes = counts.memory_bytes + counts.disk_bytes
    return LevelReturn(
        level=counts.level,
        reuse=reuse,
        saved_s=counts.saved_s,
        memory_bytes=counts.memory_bytes,
        disk_bytes=counts.disk_bytes,
        saved_s_per_gib=counts.saved_s / (size_bytes / GIB) if size_bytes else None,
        advice=_advice(counts, reuse),
    )


def _advice(counts: LevelCounts, reuse: float) -> Advice:
    if counts.resting:
        return Advice.RESTS
    if counts.looked_up < ENOUGH:
        return Advice.WAIT
    return Advice.KEEP if reuse >= LEAST_REUSE else Advice.SWITCH_OFF
