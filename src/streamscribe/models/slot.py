"""Where the version of a model that serves is found: users take leases of it, and a newer one takes its place."""

import asyncio
from collections import Counter
from typing import Generic, Protocol, TypeVar

from streamscribe.core.integrity import ensure
from streamscribe.models.stage import Part


class Version(Protocol):
    """One loaded model, whatever it does."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it runs in."""
        ...


V = TypeVar("V", bound=Version)


class Slot(Generic[V]):
    """One role's versions: the current one, and those before it that somebody still holds a lease of.

    All methods are for the event loop. A version that was replaced stays whole until its last lease is back.
    """

    def __init__(self, version: V) -> None:
        self.current = version
        """What a lease that is taken now is of."""
        self._leases: Counter[int] = Counter()
        self._retired: dict[int, tuple[V, asyncio.Event]] = {}

    @property
    def versions(self) -> tuple[V, ...]:
        """The current one first."""
        return (self.current, *(version for version, _ in self._retired.values()))

    @property
    def leases(self) -> int:
        """How many are out, of all versions."""
        return self._leases.total()

    def take(self) -> V:
        """A lease of the current version, to be given back once."""
        self._leases[id(self.current)] += 1
        return self.current

    def give_back(self, version: V) -> None:
        """Ends a lease."""
        key = id(version)
        self._leases[key] -= 1
        if not self._leases[key]:
            del self._leases[key]
            if key in self._retired:
                self._retired[key][1].set()

    def replace(self, version: V) -> V:
        """Makes `version` the current one and gives the former, which stays whole until it is `freed`."""
        former, self.current = self.current, version
        free = asyncio.Event()
        self._retired[id(former)] = (former, free)
        if not self._leases[id(former)]:
            free.set()
        return former

    async def freed(self, former: V) -> None:
        """Returns when nobody holds a lease of a version that was replaced; it is none of `versions` then."""
        await self._retired[id(former)][1].wait()
        del self._retired[id(former)]

    def check_integrity(self) -> None:
        """Leases are of versions that are here, and a retired one without any is about to go."""
        known = {id(version) for version in self.versions}
        ensure(all(key in known and count > 0 for key, count in self._leases.items()), "leases are of known versions")
        for key, (_, free) in self._retired.items():
            ensure(free.is_set() or self._leases[key] > 0, "a retired version without leases is free")
