"""Whether new work may be sent here: every named condition holds and the gateway is not draining."""

from collections.abc import Callable, Mapping

from streamscribe.gateway.hub import Hub


class Readiness:
    """The answer of `/readyz`. Conditions are asked at each request and must be cheap."""

    def __init__(self, hub: Hub, conditions: Mapping[str, Callable[[], bool]]) -> None:
        self._hub = hub
        self._conditions = conditions

    def waiting_for(self) -> list[str]:
        """The names of what does not hold."""
        names = [name for name, holds in self._conditions.items() if not holds()]
        return [*names, "drain"] if self._hub.draining else names
