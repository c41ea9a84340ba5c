"""When a cache that finds next to nothing rests: most audio is heard once, and what is kept of it costs as much."""

from dataclasses import dataclass
from enum import StrEnum

from streamscribe.core.integrity import ensure


@dataclass(frozen=True, slots=True)
class WorthPolicy:
    """Look-ups are judged by windows of `window`. After `patience` windows in a row that found less than `low` of what
    was looked up, the cache rests for `rest_s`; then it is tried for as many windows, and stays if one of them finds at
    least `high`. A cache that has just begun is empty, so that its first windows say little: hence the patience.
    """

    window: int = 500
    patience: int = 4
    low: float = 0.005
    high: float = 0.01
    rest_s: float = 3600.0


USUAL = WorthPolicy()


class Turn(StrEnum):
    """What has just become of the cache; to be logged."""

    RESTS = "rests"
    TRIED = "tried"
    STAYS = "stays"


class CacheWorth:
    """Whether a cache is to be asked and filled now. Not thread-safe: its user's lock is around it.

    Merged requests do not count as found: those are spared by single flight, with a cache or without.
    """

    def __init__(self, policy: WorthPolicy = USUAL) -> None:
        self._policy = policy
        self._rests_until: float | None = None
        self._on_trial = False
        self._looked = self._found = self._poor = 0

    def begin(self, now: float) -> Turn | None:
        """Before a look-up; `resting` is true of `now` afterwards. TRIED when the rest is just over."""
        if self._rests_until is None or now < self._rests_until:
            return None
        self._rests_until = None
        self._on_trial = True
        return Turn.TRIED

    @property
    def resting(self) -> bool:
        """Whether the cache is to be left alone: neither asked nor filled."""
        return self._rests_until is not None

    def looked_up(self, now: float, *, found: bool) -> Turn | None:
        """A look-up is over. RESTS or STAYS when it decided something. One that ends while the cache rests is late."""
        if self.resting:
            return None
        self._looked += 1
        self._found += found
        if self._looked < self._policy.window:
            return None
        share = self._found / self._looked
        self._looked = self._found = 0
        if share >= (self._policy.high if self._on_trial else self._policy.low):
            self._poor = 0
            stays, self._on_trial = self._on_trial, False
            return Turn.STAYS if stays else None
        self._poor += 1
        if self._poor < self._policy.patience:
            return None
        self._poor, self._on_trial = 0, False
        self._rests_until = now + self._policy.rest_s
        return Turn.RESTS

    def check_integrity(self) -> None:
        """0 <= found <= looked up < window; poor windows < patience; what rests is not on trial and counts nothing."""
        ensure(0 <= self._found <= self._looked < self._policy.window, "found <= looked up < window")
        ensure(0 <= self._poor < self._policy.patience, "poor windows < patience")
        ensure(not (self.resting and (self._on_trial or self._looked or self._poor)), "what rests counts nothing")
