"""How often a cache was asked, and how often it knew."""

from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True, slots=True)
class Asked:
    """Look-ups since the start, by what came of them."""

    hits: int = 0
    misses: int = 0


class Tally:
    """Counts look-ups; safe to use from many threads."""

    def __init__(self) -> None:
        self._hits = self._misses = 0
        self._lock = Lock()

    def count(self, *, hit: bool) -> None:
        """One more look-up."""
        with self._lock:
            self._hits += hit
            self._misses += not hit

    def read(self) -> Asked:
        """All of them."""
        with self._lock:
            return Asked(self._hits, self._misses)
