"""What a gateway knows of the load of workers in other processes, from what they tell and from whom it let in itself.

A worker tells its voices by gateway. Of its own a gateway knows better: those that it has let in and that have not
spoken yet are not the worker's. So a worker's voices are the gateway's own in its partitions, by the gateway's books,
and the other gateways', as told.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.load import SETTLED_S, ModelLoad
from streamscribe.core.records import SessionOpened

UNOWNED_TOO_LONG_S = 10.0
"""A group that gives partitions away is done within 4 s by default; one that takes so long may never be done."""


@dataclass(frozen=True, slots=True)
class GatewayVoices:
    """Of one gateway's sessions: voices there are, and those of them that came within `SETTLED_S`."""

    voices: int
    newcomers: int


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """What a worker tells: its partitions of the audio, its voices by gateway, its models.

    `outage`: one of them serves nobody. `late`: the tenants whose live segments wait too long for finalizers.
    """

    partitions: frozenset[int]
    voices: Mapping[int, GatewayVoices]
    models: tuple[ModelLoad, ...]
    outage: bool = False
    late: frozenset[TenantId] = frozenset()


class Heard(Protocol):
    """A session as its worker has it: who is told, and what it began with, where that is known."""

    @property
    def reply_to(self) -> int:
        """The number of its gateway."""
        ...

    @property
    def opened(self) -> SessionOpened | None:
        """Its first record."""
        ...


def voices_by_gateway(sessions: Iterable[Heard]) -> Counter[int]:
    """The voices of live sessions; files take what these leave, and count for nothing."""
    voices: Counter[int] = Counter()
    for session in sessions:
        if session.opened is not None and session.opened.options.live:
            voices[session.reply_to] += session.opened.options.audio.channels
    return voices


@dataclass(slots=True)
class _Lane:
    """The gateway's own voices of one partition; how many more came than went in each of the last seconds."""

    voices: int = 0
    came: Counter[int] = field(default_factory=Counter)

    def add(self, count: int, now: float) -> None:
        self.voices += count
        for second in [second for second in self.came if second <= int(now) - SETTLED_S]:
            del self.came[second]
        self.came[int(now)] += count

    def newcomers(self, now: float) -> int:
        return sum(max(0, came) for second, came in self.came.items() if second > int(now) - SETTLED_S)


class ClusterLoad:
    """The workers that tell their load, and the gateway's own sessions by partition."""

    def __init__(self, gateway: int) -> None:
        """`gateway`: the number under which workers tell this one's voices."""
        self._gateway = gateway
        self._loads: Mapping[str, WorkerLoad] = {}
        self._owners: dict[int, str] = {}
        self._owned_at: dict[int, float] = {}
        self._told_since = math.inf
        self._lanes: dict[int, _Lane] = {}
        self._seats: dict[SessionId, tuple[int, int]] = {}

    @property
    def workers(self) -> Iterable[str]:
        """Those that tell."""
        return self._loads.keys()

    def heard(self, loads: Mapping[str, WorkerLoad], now: float) -> None:
        """All that workers tell now, in place of what they told: who tells nothing any more is forgotten."""
        self._told_since = min(self._told_since, now) if loads else math.inf
        self._loads = loads
        self._owners = {number: name for name, load in loads.items() for number in load.partitions}
        self._owned_at.update(dict.fromkeys(self._owners, now))

    def owner(self, partition: int) -> str | None:
        """Whose sessions those of a partition are; None while nobody says so, as when it moves."""
        return self._owners.get(partition)

    def unowned_too_long(self, partition: int, now: float) -> bool:
        """Whether nobody has had it for `UNOWNED_TOO_LONG_S`, although workers told of themselves all that time."""
        since = max(self._told_since, self._owned_at.get(partition, -math.inf))
        return partition not in self._owners and now - since >= UNOWNED_TOO_LONG_S

    def all_unowned_too_long(self, now: float) -> bool:
        """Whether that holds for each partition that there is."""
        since = max([self._told_since, *self._owned_at.values()])
        return not self._owners and now - since >= UNOWNED_TOO_LONG_S

    def load(self, worker: str) -> WorkerLoad | None:
        """What one told."""
        return self._loads.get(worker)

    def seat(self, session: SessionId, partition: int, voices: int, now: float) -> None:
        """A session was let in."""
        ensure(session not in self._seats, "a session is seated once")
        self._seats[session] = (partition, voices)
        self._lanes.setdefault(partition, _Lane()).add(voices, now)

    def forget(self, session: SessionId, now: float) -> None:
        """The session is over; one that is not known changes nothing."""
        partition, voices = self._seats.pop(session, (-1, 0))
        if voices:
            self._lanes[partition].add(-voices, now)

    def voices(self, worker: str) -> int:
        """All that a worker has, and will have from here."""
        return sum(lane.voices for lane in self._own(worker)) + sum(one.voices for one in self._others(worker))

    def newcomers(self, worker: str, now: float) -> int:
        """Those of them that have not shown in its figures yet."""
        own = sum(lane.newcomers(now) for lane in self._own(worker))
        return own + sum(one.newcomers for one in self._others(worker))

    def pressure(self, worker: str, more: int) -> tuple[float, int]:
        """To compare workers by: how busy the busiest of its models would be with `more` voices, then its voices."""
        voices, load = self.voices(worker), self._loads[worker]
        return max((model.predicted(voices, more) for model in load.models), default=0.0), voices

    def check_integrity(self) -> None:
        """The voices of a partition are those of its sessions."""
        seated: Counter[int] = Counter()
        for partition, voices in self._seats.values():
            seated[partition] += voices
        held = Counter({number: lane.voices for number, lane in self._lanes.items() if lane.voices})
        ensure(seated == held, "a partition's voices == those of its sessions")

    def _own(self, worker: str) -> Iterable[_Lane]:
        load = self._loads.get(worker)
        return (self._lanes[n] for n in load.partitions if n in self._lanes) if load else ()

    def _others(self, worker: str) -> Iterable[GatewayVoices]:
        load = self._loads.get(worker)
        return (one for gateway, one in load.voices.items() if gateway != self._gateway) if load else ()


class WorkerGauge:
    """`core.admission.Gauge` of one worker; voices are counted in the books, not here."""

    def __init__(self, books: ClusterLoad, worker: str) -> None:
        self._books = books
        self._worker = worker

    @property
    def voices(self) -> int:
        """Voices it has, and will have from here."""
        return self._books.voices(self._worker)

    def newcomers(self, now: float) -> int:
        """Those of them that have not shown in its figures yet."""
        return self._books.newcomers(self._worker, now)

    def names(self) -> Iterable[str]:
        """Of its models, and its event loop."""
        return self._models()

    def lag_p95_s(self, name: str, now: float) -> float:
        """As it told."""
        return self._models()[name].lag_p95_s

    def predicted(self, name: str, more: int, now: float) -> float:
        """From what it told, with the voices that there are now."""
        return self._models()[name].predicted(self.voices, more)

    def add_voices(self, count: int, now: float) -> None:
        """Nothing: `ClusterLoad.seat` and `forget` do."""

    def _models(self) -> dict[str, ModelLoad]:
        load = self._books.load(self._worker)
        return {model.name: model for model in load.models} if load is not None else {}
