"""When live segments do without their second pass, because it comes too late."""

from collections.abc import Hashable
from itertools import count
from math import inf

from streamscribe.core.integrity import ensure

EASED = 0.5
"""The second pass is asked again once the oldest segment has waited less than this share of the bound."""


class SecondPassLag:
    """The live segments that wait for their second pass, and for which tenants it is behind.

    Tenants take turns with its model, so that one that asks for more than its share waits, and no other: each is
    behind by its own segments. It is from when one has waited `bound_s` in vain until what else of it waits has waited
    less than half of that; meanwhile no further one is asked for, so that what waits gets through. Each call costs the
    same. Of a tenant of whom nothing waits nothing is kept.
    """

    def __init__(self, bound_s: float) -> None:
        """With `bound_s` inf it never is."""
        self.bound_s = bound_s
        self._ids = count()
        self._asked: dict[Hashable, dict[int, float]] = {}
        self._behind: set[Hashable] = set()

    def ask(self, tenant: Hashable, now: float) -> int | None:
        """A ticket for one more segment, to be given back; None: it does without."""
        if tenant in self._behind and self.lag_s(tenant, now) < EASED * self.bound_s:
            self._behind.remove(tenant)
        if tenant in self._behind:
            return None
        ticket = next(self._ids)
        self._asked.setdefault(tenant, {})[ticket] = now
        return ticket

    def give_back(self, tenant: Hashable, ticket: int, *, late: bool) -> None:
        """A segment has its text, or waits no more because that is too `late`."""
        asked = self._asked[tenant]
        del asked[ticket]
        if late:
            self._behind.add(tenant)
        if not asked:
            del self._asked[tenant]
            self._behind.discard(tenant)

    def lag_s(self, tenant: Hashable, now: float) -> float:
        """How long the tenant's oldest has waited."""
        return now - next(iter(self._asked.get(tenant, {}).values()), now)

    def check_integrity(self) -> None:
        """Tickets are in the order of asking; nobody is kept who waits for nothing; without a bound nothing is late."""
        for asked in self._asked.values():
            ensure(bool(asked) and list(asked.values()) == sorted(asked.values()), "the oldest is first")
        ensure(self._behind <= self._asked.keys(), "who is behind waits")
        ensure(self.bound_s < inf or not self._behind, "without a bound nothing is late")
