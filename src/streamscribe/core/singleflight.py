"""Who computes and who waits when several ask for the same thing: the books, without futures."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamscribe.core.integrity import ensure

Key = TypeVar("Key", bound=Hashable)
Waiter = TypeVar("Waiter", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Lead:
    """Nobody computes it yet: begin, and call `end(flight)` when it is over."""

    flight: int


@dataclass(frozen=True, slots=True)
class Follow:
    """It is being computed already: wait."""

    flight: int


@dataclass(slots=True)
class _Flight(Generic[Key, Waiter]):
    """One computation, and all who wait for it in order of arrival."""

    key: Key
    waiters: dict[Waiter, None] = field(default_factory=dict)


class SingleFlight(Generic[Key, Waiter]):
    """One computation of a key at a time. It belongs to all who wait for it, not to the one who began it.

    So a leader that leaves harms nobody; when the last waiter leaves, the computation is to be cancelled. Nothing is
    remembered of a flight that has ended: a failure is told to those who waited, and the next to ask tries again.
    """

    def __init__(self) -> None:
        self._flights: dict[int, _Flight[Key, Waiter]] = {}
        self._of_key: dict[Key, int] = {}
        self._of_waiter: dict[Waiter, int] = {}
        self._next_flight = 0

    def __len__(self) -> int:
        return len(self._flights)

    def join(self, key: Key, waiter: Waiter) -> Lead | Follow:
        """Lets `waiter` wait for `key`; raises AssertionError if it waits already."""
        ensure(waiter not in self._of_waiter, "a waiter waits for one key")
        flight = self._of_key.get(key)
        leads = flight is None
        if flight is None:
            flight = self._of_key[key] = self._next_flight
            self._flights[flight] = _Flight(key)
            self._next_flight += 1
        self._flights[flight].waiters[waiter] = None
        self._of_waiter[waiter] = flight
        return Lead(flight) if leads else Follow(flight)

    def end(self, flight: int) -> tuple[Waiter, ...]:
        """The computation is over, well or not: who waited for it, in order; nobody if it was cancelled before."""
        ended = self._flights.pop(flight, None)
        if ended is None:
            return ()
        del self._of_key[ended.key]
        for waiter in ended.waiters:
            del self._of_waiter[waiter]
        return tuple(ended.waiters)

    def leave(self, waiter: Waiter) -> int | None:
        """`waiter` waits no more; returns the flight to cancel if it was the last one there."""
        flight = self._of_waiter.pop(waiter, None)
        if flight is None:
            return None
        left = self._flights[flight]
        del left.waiters[waiter]
        if left.waiters:
            return None
        del self._flights[flight]
        del self._of_key[left.key]
        return flight

    def check_integrity(self) -> None:
        """Flights, their keys and their waiters agree: each key flies once, each waiter waits once, nobody is alone."""
        ensure({flight.key: number for number, flight in self._flights.items()} == self._of_key, "keys agree")
        waiting = {waiter: number for number, flight in self._flights.items() for waiter in flight.waiters}
        ensure(waiting == self._of_waiter, "waiters agree")
        ensure(len(self._of_key) == len(self._flights), "each key flies once")
        ensure(sum(len(flight.waiters) for flight in self._flights.values()) == len(waiting), "each waits once")
        ensure(all(flight.waiters for flight in self._flights.values()), "every flight has waiters")
