"""Encodings on their way: who waits for which, in one ledger that threads share under one lock."""

from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock

from streamscribe.core.batching import Priority
from streamscribe.core.cachekey import CacheKey
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.core.ids import TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.singleflight import Follow, SingleFlight
from streamscribe.encoder.encoding import Encoding, Lookup
from streamscribe.models.ports import Embedding, Window


@dataclass(slots=True, eq=False)
class Caller:
    """One request, without its audio: that is let go once it is read. `began` is as `Purges` counts.

    `lookup` is what its own look at the cache brought, until it is answered.
    """

    id: int
    tenant: TenantId | None
    window: Window
    priority: Priority
    since_s: float
    num_samples: int
    store: bool
    began: int
    share: Share = NOBODYS
    future: "Future[Encoding]" = field(default_factory=Future)
    lookup: Lookup = Lookup.MISS
    fingerprint: str = ""
    key: CacheKey | None = None
    silent: bool = False


@dataclass(slots=True, eq=False)
class Flight:
    """One encoding, for all who wait for it.

    Its `priority` is the highest of those who have waited for it. `work` is there while it waits for the encoder: a
    future keeps what it calls when it is done, and both would keep the embedding until garbage is collected.
    """

    number: int
    leader: Caller
    priority: Priority
    callers: dict[int, Caller]
    work: "Future[Embedding] | None" = None


class Flights:
    """Who waits for which encoding. Safe to use from many threads; calls nobody while it holds its lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._books: SingleFlight[Hashable, int] = SingleFlight()
        self._flights: dict[int, Flight] = {}
        self._flight_of: dict[int, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def join(self, caller: Caller) -> Flight | None:
        """The flight that the caller is in, which it leads unless it is another's; None if it has left.

        Without a key it flies alone.
        """
        with self._lock:
            if caller.future.cancelled():
                return None
            role = self._books.join((caller.id,) if caller.key is None else caller.key, caller.id)
            if isinstance(role, Follow):
                flight = self._flights[role.flight]
                flight.callers[caller.id] = caller
                flight.priority = min(flight.priority, caller.priority)
                self._flight_of[caller.id] = flight
                return flight
            flight = Flight(role.flight, caller, caller.priority, {caller.id: caller})
            self._flights[role.flight] = self._flight_of[caller.id] = flight
            return flight

    def wanted(self, flight: Flight) -> bool:
        """Whether somebody waits for it."""
        with self._lock:
            return flight.number in self._flights

    def kept_since(self, flight: Flight) -> int | None:
        """When the first who has to do with it began, as `Purges` counts; None if nobody who waits lets it be kept."""
        with self._lock:
            waiting = flight.callers.values()
            if not any(caller.store for caller in waiting):
                return None
            return min(flight.leader.began, *(caller.began for caller in waiting))

    def working(self, flight: Flight, work: "Future[Embedding]") -> bool:
        """The flight is in the encoder's queue; False if nobody waits for it any more."""
        with self._lock:
            wanted = flight.number in self._flights
            flight.work = work if wanted else None
            return wanted

    def end(self, flight: Flight) -> list[Caller]:
        """It is over: who waited for it, in order of arrival."""
        with self._lock:
            waiters = self._books.end(flight.number)
            self._flights.pop(flight.number, None)
            flight.work = None
            for waiter in waiters:
                del self._flight_of[waiter]
            return [flight.callers[waiter] for waiter in waiters]

    def leave(self, caller: Caller) -> "tuple[bool, Future[Embedding] | None]":
        """The caller waits no more: whether it was its flight's last one, and the work that is to be cancelled then."""
        with self._lock:
            flight = self._flight_of.pop(caller.id, None)
            abandoned = self._books.leave(caller.id)
            if flight is not None:
                del flight.callers[caller.id]
            if abandoned is None:
                return False, None
            given_up = self._flights.pop(abandoned)
            work, given_up.work = given_up.work, None
            return True, work

    def check_integrity(self) -> None:
        """The books' equations, and that flights and callers are those of the books."""
        with self._lock:
            self._books.check_integrity()
            ensure(len(self._books) == len(self._flights), "flights == those of the books")
            waiting = {waiter: flight for flight in self._flights.values() for waiter in flight.callers}
            ensure(waiting == self._flight_of, "each caller is in the flight that it waits for")
