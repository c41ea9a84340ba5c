"""How many requests a step may have after one ran out of memory: halves at once, grows back slowly."""

from collections.abc import Hashable
from dataclasses import dataclass

from streamscribe.core.integrity import ensure

GROW_AFTER = 100
"""Full steps in a row that must go well before the limit grows by one."""


@dataclass(slots=True)
class _Limit:
    size: int
    full_steps: int = 0


class BatchLimits:
    """The limit of each group of requests: `most`, but for those whose steps ran out of memory.

    A step of n requests that ran out leaves the limit at half of n, never below one. After every `GROW_AFTER` full
    steps that went well it grows by one, up to `most`: too large a guess costs one failed step in so many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shrunk: dict[Hashable, _Limit] = {}

    def of(self, group: Hashable) -> int:
        """How many requests of the group one step may have."""
        limit = self._shrunk.get(group)
        return self._most if limit is None else limit.size

    def shrink(self, group: Hashable, size: int) -> None:
        """A step of `size` requests of the group ran out of memory."""
        self._shrunk[group] = _Limit(min(self.of(group), max(1, size // 2)))

    def went_well(self, group: Hashable, size: int) -> None:
        """A step of `size` requests did not."""
        limit = self._shrunk.get(group)
        if limit is None or size != limit.size:
            return
        limit.full_steps += 1
        if limit.full_steps == GROW_AFTER:
            limit.size += 1
            limit.full_steps = 0
            if limit.size >= self._most:
                del self._shrunk[group]

    def check_integrity(self) -> None:
        """1 <= limit < most for each group that is kept, unless `most` is 1; its count is below the next growth."""
        for limit in self._shrunk.values():
            ensure(1 <= limit.size < max(2, self._most), "1 <= limit < most")
            ensure(0 <= limit.full_steps < GROW_AFTER, "a limit that was to grow has grown")
