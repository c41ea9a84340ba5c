"""Where a session stands at one place of its log: all that must be known of what lies before, and not a word of it.

Whoever knows a mark reads the log from its place on, and has the session as who read all of it; what is missing are the
texts of results before the mark. Counters and positions only: it may lie where no text may.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FinalsRun:
    """Finals of `count` segments in a row, the first `first`: the pass of each, and whether it left a text standing."""

    first: int
    count: int
    pass_: int
    stands: bool


@dataclass(frozen=True, slots=True)
class ResultMark:
    """What a result log knows of the results before."""

    last_version: int
    closed_up_to: int
    finals: tuple[FinalsRun, ...]


@dataclass(frozen=True, slots=True)
class DownlinkMark:
    """What a session has told its client. `voice` has each channel's last change: channel, at_ms, started."""

    results: ResultMark
    processed_ms: int
    answered: int
    voice: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class UplinkMark:
    """What a session has published."""

    next_index: int
    next_sequence: int | None
    received_bytes: int
    ended: bool


@dataclass(frozen=True, slots=True)
class SessionMark:
    """Both."""

    uplink: UplinkMark
    downlink: DownlinkMark


def runs_of(finals: Iterable[tuple[int, int, bool]]) -> tuple[FinalsRun, ...]:
    """Segments in order of their ids, each with the pass of its final and whether a text stands, as few runs."""
    runs: list[FinalsRun] = []
    for segment_id, pass_, stands in finals:
        last = runs[-1] if runs else None
        if last is not None and (last.first + last.count, last.pass_, last.stands) == (segment_id, pass_, stands):
            runs[-1] = FinalsRun(last.first, last.count + 1, pass_, stands)
        else:
            runs.append(FinalsRun(segment_id, 1, pass_, stands))
    return tuple(runs)
