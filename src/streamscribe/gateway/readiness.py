"""Whether new work may be sent here: every named condition holds and the gateway is not draining."""

from collections.abc import Callable, Mapping


class Readiness:
    """The answer of `/readyz`. Conditions are asked at each request and must be cheap."""

    def __init__(self, conditions: Mapping[str, Callable[[], bool]]) -> None:
        self._conditions = conditions
        self.draining = False
        """Set once, by a drain."""

    def waiting_for(self) -> list[str]:
        """The names of what does not hold."""
        names = [name for name, holds in self._conditions.items() if not holds()]
        return [*names, "drain"] if self.draining else names
