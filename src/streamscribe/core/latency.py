"""How long the chunks of a first pass are: as a session wishes, and longer while the models lag behind."""

from collections.abc import Sequence
from math import inf

from streamscribe.core.integrity import ensure
from streamscribe.core.options import Latency

BALANCED_MS = 600

HIGH_LAG_S = 0.3
LOW_LAG_S = 0.1
SETTLE_S = 5.0
"""Shortest time between two changes: what the last one brought shows only then."""


def chunk_ms(choices_ms: Sequence[int], latency: Latency, wanted_ms: int | None = None) -> int:
    """Of `choices_ms` the one nearest to `wanted_ms`, else what `latency` stands for; of two equally near the shorter.

    `adaptive` is what it begins with.
    """
    if wanted_ms is None:
        if latency is Latency.LOW:
            return min(choices_ms)
        if latency is Latency.THROUGHPUT:
            return max(choices_ms)
        wanted_ms = BALANCED_MS
    return min(choices_ms, key=lambda choice: (abs(choice - wanted_ms), choice))


class AdaptiveChunk:
    """The chunk of new segments of adaptive sessions, which share their models and so their lag.

    Over HIGH_LAG_S the next longer chunk is taken, which costs less; under LOW_LAG_S the next shorter one, back to the
    balanced.
    """

    def __init__(self, choices_ms: Sequence[int]) -> None:
        self._choices = sorted(choices_ms)
        self._shortest = self._chosen = self._choices.index(chunk_ms(choices_ms, Latency.BALANCED))
        self._changed_at = -inf

    def chunk_ms(self, lag_s: float, now: float) -> int:
        """The chunk to take while a chunk is answered after `lag_s`."""
        if now - self._changed_at >= SETTLE_S:
            before = self._chosen
            if lag_s > HIGH_LAG_S:
                self._chosen = min(self._chosen + 1, len(self._choices) - 1)
            elif lag_s < LOW_LAG_S:
                self._chosen = max(self._chosen - 1, self._shortest)
            if self._chosen != before:
                self._changed_at = now
        return self._choices[self._chosen]

    def check_integrity(self) -> None:
        """The choice is one of those offered, never shorter than the balanced."""
        ensure(self._shortest <= self._chosen < len(self._choices), "balanced <= chosen <= longest")
