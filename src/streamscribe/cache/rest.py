"""Lets a cache rest where next to nothing is found in it: `core.cache_worth` with a lock and a clock."""

import time
from collections.abc import Callable
from threading import Lock

from streamscribe.core.cache_worth import USUAL, CacheWorth, Turn, WorthPolicy


class Rest:
    """Asked before each look-up, and told what came of it; safe to use from many threads.

    `on_turn` hears when the cache goes to rest, is tried again, and stays: to log it, and to free what a resting cache
    holds. It is called in the thread that looked up, and holds no lock.
    """

    def __init__(
        self,
        on_turn: Callable[[Turn], None],
        policy: WorthPolicy = USUAL,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_turn = on_turn
        self._worth = CacheWorth(policy)
        self._clock = clock
        self._lock = Lock()

    def resting(self) -> bool:
        """Whether the cache is to be left alone now: neither asked nor filled."""
        with self._lock:
            turn = self._worth.begin(self._clock())
            resting = self._worth.resting
        self._tell(turn)
        return resting

    def count(self, *, found: bool) -> None:
        """A look-up is over."""
        with self._lock:
            turn = self._worth.looked_up(self._clock(), found=found)
        self._tell(turn)

    def _tell(self, turn: Turn | None) -> None:
        if turn is not None:
            self._on_turn(turn)
