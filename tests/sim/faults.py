"""What goes wrong, and when: drawn from a run's seed before it begins."""

import random
from dataclasses import dataclass

LAST_FAULT_S = 10.0

KINDS = {
    "crash": 5.0,
    "freeze": 3.0,
    "disconnect": 4.0,
    "vanish": 0.4,
    "move": 1.5,
    "outage": 0.5,
    "drain": 0.4,
    "stall": 1.0,
    "jump": 0.5,
    "store": 1.0,
    "broker": 0.7,
}
"""The kinds, by how often they come. A worker crashes; it freezes, past its time or not; a client's connection breaks,
or it vanishes for good; a worker is told to go, and still speaks for a while; all workers are gone; a gateway drains;
a gateway's loop stands still; the clock jumps; a cluster's store or its brokers are away."""

CLUSTER_KINDS = KINDS | {"die": 1.2, "drain": 2.0, "bus": 0.4, "empty": 0.5, "stall": 2.0, "freeze": 5.0, "jump": 1.0}
"""Where sessions go on at another gateway: one dies, or can read its results no more; the store comes back empty."""

FINALIZER_KINDS = {
    "finalizer dies": 8.0,
    "finalizer freezes": 5.0,
    "finalizer goes": 4.0,
    "finalizer is mute": 3.0,
    "finalizer's model stops": 2.0,
    "no finalizer": 2.0,
}
"""Where finalizers recognise: one is killed, stands still, is told to go, can answer nothing for a while, and perhaps
ends then, or can hear nothing more; all are gone."""

FINALS_KINDS = CLUSTER_KINDS | FINALIZER_KINDS


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, so long after the begin; it concerns what its kind is about."""

    at_s: float
    kind: str
    site: int
    worker: int
    client: str
    for_s: float
    noticed_s: float
    suspect: bool


def plan(
    rng: random.Random, clients: list[str], sites: int, workers: int, often: dict[str, float] = KINDS
) -> list[Fault]:
    """A run's faults in order: none in some runs, many in others."""
    count = rng.choice((0, 1, 2, 4, 8, 16))
    times = sorted(rng.uniform(0, LAST_FAULT_S) for _ in range(count))
    kinds = rng.choices(list(often), list(often.values()), k=count)
    return [
        Fault(
            at_s=round(at_s, 3),
            kind=kind,
            site=rng.randrange(sites),
            worker=rng.randrange(workers),
            client=rng.choice(clients),
            for_s=round(rng.choice((0.05, 0.5, 2.0, 4.0)) * rng.uniform(0.5, 1.5), 3),
            noticed_s=round(rng.choice((0.0, 0.1, 3.0)) * rng.random(), 3),
            suspect=rng.random() < 0.5,
        )
        for at_s, kind in zip(times, kinds, strict=True)
    ]
