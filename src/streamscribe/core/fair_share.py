"""Whose turn it is with a model that many tenants share: start-time fair queueing.

Goyal, Vin and Cheng, "Start-time Fair Queueing" (SIGCOMM 1996). Each request has a start tag, the finish tag of its
tenant's last one but at least the virtual time v; its finish tag lies its cost, over the tenant's weight, behind. The
lowest start tag is served first, and v is the start tag of what is served. So tenants that always have something
waiting get time by their weights, whoever asks for less gets all that it asks for at once, and nobody gathers a claim
while it asks for nothing. No rate of the model needs to be known.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from streamscribe.core.integrity import ensure

MAX_WEIGHT = 100
LEAST_COST_S = 0.1
"""What a request costs that has less audio, or none: its place in a step."""
_SWEEP_AT = 64


@dataclass(frozen=True, slots=True)
class Share:
    """Whose time a request takes, and how much of it is the tenant's beside others' (1 to `MAX_WEIGHT`)."""

    tenant: Hashable = None
    weight: int = 1


NOBODYS = Share()


def cost_s(audio_s: float) -> float:
    """What a request takes of its tenant's share, in seconds of audio."""
    return max(audio_s, LEAST_COST_S)


class FairShares:
    """The tags of the tenants of one queue. Memory is bounded by twice the tenants that are ahead of v."""

    def __init__(self) -> None:
        self._virtual = 0.0
        self._finish: dict[Hashable, float] = {}
        self._sweep_at = _SWEEP_AT

    def start(self, tenant: Hashable) -> float:
        """The start tag of the tenant's next request."""
        return max(self._virtual, self._finish.get(tenant, 0.0))

    def serve(self, tenant: Hashable) -> None:
        """A step begins with a request of the tenant's: v moves on. Before it is charged."""
        self._virtual = self.start(tenant)
        if len(self._finish) > self._sweep_at:
            self._finish = {one: tag for one, tag in self._finish.items() if tag > self._virtual}
            self._sweep_at = max(_SWEEP_AT, 2 * len(self._finish))

    def charge(self, share: Share, cost: float) -> None:
        """Work of the tenant's is in a step, of so many seconds of audio."""
        self._finish[share.tenant] = self.start(share.tenant) + cost / share.weight

    def reset(self) -> None:
        """A busy time is over: all are even."""
        self._virtual = 0.0
        self._finish.clear()

    def check_integrity(self) -> None:
        """No start tag lies before v; no more tags are kept than twice those ahead of v."""
        ensure(all(self.start(tenant) >= self._virtual for tenant in self._finish), "start tags >= v")
        ensure(self._sweep_at >= _SWEEP_AT, "a sweep comes at a number")
