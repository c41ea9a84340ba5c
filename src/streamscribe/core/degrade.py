"""When live segments do without their second pass, because it comes too late."""

from itertools import count
from math import inf

from streamscribe.core.integrity import ensure

EASED = 0.5
"""The second pass is asked again once the oldest segment has waited less than this share of the bound."""


class SecondPassLag:
    """The live segments that wait for their second pass, and whether it is behind.

    It is behind from when one has waited `bound_s` in vain until what else waits has waited less than half of that;
    meanwhile no further one is asked for, so that what waits gets through. Each call costs the same.
    """

    def __init__(self, bound_s: float) -> None:
        """With `bound_s` inf it never is."""
        self.bound_s = bound_s
        self._behind = False
        self._ids = count()
        self._asked: dict[int, float] = {}

    def ask(self, now: float) -> int | None:
        """A ticket for one more segment, to be given back; None: it does without."""
        if self._behind and self.lag_s(now) < EASED * self.bound_s:
            self._behind = False
        if self._behind:
            return None
        ticket = next(self._ids)
        self._asked[ticket] = now
        return ticket

    def give_back(self, ticket: int, *, late: bool) -> None:
        """A segment has its text, or waits no more because that is too `late`."""
        del self._asked[ticket]
        self._behind = self._behind or late

    def lag_s(self, now: float) -> float:
        """How long the oldest has waited."""
        return now - next(iter(self._asked.values()), now)

    def check_integrity(self) -> None:
        """Tickets are in the order of asking; without a bound nothing is late."""
        ensure(list(self._asked.values()) == sorted(self._asked.values()), "the oldest is first")
        ensure(self.bound_s < inf or not self._behind, "without a bound nothing is late")
