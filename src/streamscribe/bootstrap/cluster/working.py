"""What a process of a cluster says when it has begun to work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Working:
    """Where a worker or finalizer tells how it is, and how long it took to be ready."""

    url: str
    ready_s: float
    warmup_s: dict[str, float]
