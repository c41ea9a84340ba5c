"""How many drafts all sessions together may have at work."""

from streamscribe.core.integrity import ensure

MOST = 256.0


class DraftBudget:
    """As many drafts as come back within `target_s`: a final that comes while they run waits about so long at most.

    One draft may always run. The limit grows by one for each time that it was filled and all came back soon, and
    shrinks by a tenth for each that came back late.
    """

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._limit = 1.0
        self._running = 0

    @property
    def running(self) -> int:
        """Drafts at work."""
        return self._running

    @property
    def limit(self) -> int:
        """How many may be at work."""
        return int(self._limit)

    @property
    def full(self) -> bool:
        """Whether none may begin now."""
        return self._running >= self.limit

    def take(self) -> bool:
        """Whether one more may begin; it then gives its place back."""
        if self.full:
            return False
        self._running += 1
        return True

    def give_back(self, elapsed_s: float | None) -> None:
        """A draft ended after so long, its waiting included; None where it was given up, which tells nothing."""
        filled = self.full
        self._running -= 1
        if elapsed_s is None:
            return
        if elapsed_s > self._target_s:
            self._limit = max(1.0, self._limit * 0.9)
        elif filled:
            self._limit = min(MOST, self._limit + 1 / self._limit)

    def check_integrity(self) -> None:
        """0 <= running; the limit within its bounds."""
        ensure(self._running >= 0, "taken >= given back")
        ensure(1 <= self._limit <= MOST, "1 <= limit <= MOST")
