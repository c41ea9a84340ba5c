"""Keeps what a model's stage gave for an input, in this process' memory: encoder outputs, whole ones only."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from threading import Lock

from streamscribe.cache.tally import Asked, Tally
from streamscribe.core.cachekey import CacheKey
from streamscribe.core.ids import TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.lru import Lru
from streamscribe.models.ports import Embedding

PROTECTED_SHARE = 0.8


class Eviction(StrEnum):
    """Why a value left the cache before it was put anew."""

    SPACE = "space"
    SHARE = "share"
    PURGE = "purge"
    INVALID = "invalid"
    EXPIRED = "expired"
    VERSION = "version"
    """No version of a model that serves could ask for it."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds now, and what it has lost since it was made."""

    entries: int
    size_bytes: int
    evictions: Mapping[Eviction, int]


class StageOutputCache:
    """At most so many values and bytes, and of one tenant at most its share of both; values used again go last.

    A value is kept for at most `ttl_s` after it was put; what has ended is let go of at the next call of any kind.
    Safe to use from many threads. Values are frozen: arrays that cannot be written to; one that has left lives on with
    whoever got it. With no entries or bytes the cache is off: nothing is copied or counted.

    What a namespace (all that a value depends on besides its key's audio) has put is dropped when the last who entered
    it has left.
    """

    def __init__(
        self,
        *,
        max_entries: int,
        max_bytes: int,
        tenant_share: float,
        ttl_s: float = inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ttl_s = ttl_s
        self._clock = clock
        self._max_bytes = max_bytes if max_entries else 0
        self._books: Lru[CacheKey] = Lru(
            max_entries, max_bytes, protected_share=PROTECTED_SHARE, owner_share=tenant_share
        )
        self._values: dict[CacheKey, Embedding] = {}
        self._ends: OrderedDict[CacheKey, float] = OrderedDict()
        """When each value ends, in the order in which they were put: all are kept for as long."""
        self._namespace_of: dict[CacheKey, Hashable] = {}
        self._entered: Counter[Hashable] = Counter()
        self._evictions = dict.fromkeys(Eviction, 0)
        self._tally = Tally()
        self._lock = Lock()

    def get(self, key: CacheKey) -> Embedding | None:
        """The value, which counts as used now."""
        with self._lock:
            self._sweep()
            return self._values[key] if self._books.get(key) else None

    def put(self, tenant: TenantId | None, key: CacheKey, value: Embedding, namespace: Hashable = None) -> bool:
        """Keeps a copy of the value, or itself where nobody can write to it.

        False: it is not kept, being empty, larger than the tenant's share, or of a namespace that all have left.
        """
        if not 0 < value.nbytes <= self._max_bytes:
            return False
        frozen = _frozen(value)
        with self._lock:
            self._sweep()
            if namespace is not None and namespace not in self._entered:
                return False
            evicted = self._books.put(key, frozen.nbytes, tenant)
            if evicted is None:
                return False
            dropped = [self._forget(old) for old in (*evicted, key)]
            self._values[key] = frozen
            self._ends[key] = self._clock() + self.ttl_s
            if namespace is not None:
                self._namespace_of[key] = namespace
        del dropped  # memory is given back after the lock is
        return True

    def enter(self, namespace: Hashable) -> None:
        """Somebody asks for this namespace's values from now on, until as many `leave`."""
        with self._lock:
            self._entered[namespace] += 1

    def leave(self, namespace: Hashable) -> None:
        """One who entered asks no more. With the last one go the values."""
        with self._lock:
            self._entered[namespace] -= 1
            if self._entered[namespace]:
                return
            del self._entered[namespace]
            for key in [key for key, other in self._namespace_of.items() if other == namespace]:
                self._drop(key, Eviction.VERSION)

    def looked_up(self, *, found: bool) -> None:
        """A request was looked up, and found or not: to be told once for each, however often it was looked for."""
        self._tally.count(hit=found)

    @property
    def asked(self) -> Asked:
        """The look-ups that were told."""
        return self._tally.read()

    @property
    def rests(self) -> bool:
        """Whether it is left alone now because next to nothing was found."""
        return False

    def sweep(self) -> None:
        """Lets go of what has ended."""
        with self._lock:
            self._sweep()

    def remove_if_same(self, key: CacheKey, observed: Embedding) -> bool:
        """Drops a value found to be invalid; False when another has taken its place since it was observed."""
        with self._lock:
            if self._values.get(key) is not observed:
                return False
            self._drop(key, Eviction.INVALID)
            return True

    def purge(self, tenant: TenantId | None = None) -> int:
        """Drops all values of a tenant, or of everyone; how many there were."""
        with self._lock:
            self._sweep()
            keys = self._books.keys() if tenant is None else self._books.of_owner(tenant)
            for key in keys:
                self._drop(key, Eviction.PURGE)
            return len(keys)

    def stats(self) -> CacheStats:
        """What it holds."""
        with self._lock:
            self._sweep()
            evictions = self._evictions | {
                Eviction.SPACE: self._books.evicted_for_space,
                Eviction.SHARE: self._books.evicted_for_share,
            }
            return CacheStats(len(self._books), self._books.size_bytes, evictions)

    def check_integrity(self) -> None:
        """The books' equations; what is in the books is held with the size it has there, and nothing else."""
        with self._lock:
            self._books.check_integrity()
            ensure(set(self._books.keys()) == self._values.keys() == self._ends.keys(), "held == in the books")
            ends = list(self._ends.values())
            ensure(ends == sorted(ends), "what was put first ends first")
            held_bytes = sum(value.nbytes for value in self._values.values())
            ensure(held_bytes == self._books.size_bytes, "bytes held == bytes in the books")
            ensure(self._namespace_of.keys() <= self._values.keys(), "what has a namespace is held")
            ensure(set(self._namespace_of.values()) <= self._entered.keys(), "somebody may ask for what is held")

    def _drop(self, key: CacheKey, cause: Eviction) -> None:
        self._books.remove(key)
        self._forget(key)
        self._evictions[cause] += 1

    def _forget(self, key: CacheKey) -> Embedding | None:
        self._ends.pop(key, None)
        self._namespace_of.pop(key, None)
        return self._values.pop(key, None)

    def _sweep(self) -> None:
        now = self._clock()
        while self._ends and self._ends[first := next(iter(self._ends))] <= now:
            self._drop(first, Eviction.EXPIRED)


def _frozen(value: Embedding) -> Embedding:
    """The array if it owns its memory and cannot be written to, else a copy that cannot."""
    if value.base is None and not value.flags.writeable:
        return value
    copy = value.copy(order="C")
    copy.flags.writeable = False
    return copy
