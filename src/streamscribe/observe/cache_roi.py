"""What each level of the caches saves, beside what it takes, and what to switch off: from counts to a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

ENOUGH = 1000
"""Fewer look-ups say nothing: a cache that has just begun is empty."""
LEAST_REUSE = 0.01
GIB = 2**30


class Advice(StrEnum):
    """What to do with a level."""

    KEEP = "keep"
    SWITCH_OFF = "switch off"
    WAIT = "wait"
    """Too little was looked up to say."""


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """Of one level since the server's start: look-ups and how many were found, the seconds of work that those were
    spared, the seconds that looking up and keeping took, and what it takes in memory and on disk."""

    level: str
    looked_up: int
    found: int
    saved_s: float
    spent_s: float
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class LevelReturn:
    """One line of the table; `saved_s` is net, rates are of the server's time."""

    level: str
    reuse: float
    saved_s: float
    saved_s_per_hour: float
    memory_bytes: int
    disk_bytes: int
    saved_s_per_gib_hour: float | None
    advice: Advice


def returns(levels: Sequence[LevelCounts], *, uptime_s: float) -> list[LevelReturn]:
    """A line for each level, in order. A level is worth its room if it saves time and a hundredth of look-ups find."""
    return [_of(counts, uptime_s / 3600) for counts in levels]


def _of(counts: LevelCounts, hours: float) -> LevelReturn:
    reuse = counts.found / counts.looked_up if counts.looked_up else 0.0
    net_s = counts.saved_s - counts.spent_s
    per_hour = net_s / hours if hours else 0.0
    size_bytes = counts.memory_bytes + counts.disk_bytes
    if counts.looked_up < ENOUGH:
        advice = Advice.WAIT
    else:
        advice = Advice.KEEP if net_s > 0 and reuse >= LEAST_REUSE else Advice.SWITCH_OFF
    return LevelReturn(
        level=counts.level,
        reuse=reuse,
        saved_s=net_s,
        saved_s_per_hour=per_hour,
        memory_bytes=counts.memory_bytes,
        disk_bytes=counts.disk_bytes,
        saved_s_per_gib_hour=per_hour / (size_bytes / GIB) if size_bytes else None,
        advice=advice,
    )
