"""Whether new work may be sent here: nothing lacks and the gateway is not draining."""

from collections.abc import Callable, Sequence

from streamscribe.gateway.hub import Hub


class Readiness:
    """The answer of `/readyz`. `lacking` names what is not ready; it is asked at each request and must be cheap."""

    def __init__(self, hub: Hub, lacking: Callable[[], Sequence[str]]) -> None:
        self._hub = hub
        self._lacking = lacking

    def waiting_for(self) -> list[str]:
        """The names of what does not hold."""
        return [*self._lacking(), *(["drain"] if self._hub.draining else [])]
