"""Keeps what a model's stage gave for an input, in this process' memory: encoder outputs, whole ones only."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf
from threading import Lock
from types import TracebackType
from typing import Self

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


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds now, and what it has lost since it was made."""

    entries: int
    size_bytes: int
    evictions: Mapping[Eviction, int]


class Hold:
    """A value in use: it keeps its place in the cache until `release`, or the end of a `with`."""

    def __init__(self, value: Embedding, unpin: Callable[[], None]) -> None:
        self.value = value
        self._unpin: Callable[[], None] | None = unpin

    def release(self) -> None:
        """The value may be evicted; a second call changes nothing."""
        unpin, self._unpin = self._unpin, None
        if unpin is not None:
            unpin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class StageOutputCache:
    """At most so many values and bytes, and of one tenant at most its share of both; values used again go last.

    A value is kept for at most `ttl_s` after it was put; what has ended is let go of at the next call of any kind.
    Safe to use from many threads. Values are frozen: arrays that cannot be written to. With no entries or bytes the
    cache is off: nothing is copied or counted.
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
        self._evictions = dict.fromkeys(Eviction, 0)
        self._lock = Lock()

    def get(self, key: CacheKey) -> Embedding | None:
        """The value, which counts as used now."""
        with self._lock:
            self._sweep()
            return self._values[key] if self._books.get(key) else None

    def hold(self, key: CacheKey) -> Hold | None:
        """The value as `get` gives it, kept in the cache until it is released; also a purge frees its bytes then."""
        with self._lock:
            self._sweep()
            return Hold(self._values[key], partial(self._unpin, key)) if self._books.pin(key) else None

    def put(self, tenant: TenantId | None, key: CacheKey, value: Embedding) -> bool:
        """Keeps a copy of the value, or itself where nobody can write to it.

        False: it is not kept, being empty, larger than the tenant's share or the room that values in use leave, or
        while the key's value is in use.
        """
        if not 0 < value.nbytes <= self._max_bytes:
            return False
        frozen = _frozen(value)
        with self._lock:
            self._sweep()
            evicted = self._books.put(key, frozen.nbytes, tenant)
            if evicted is None:
                return False
            dropped = [self._forget(old) for old in (*evicted, key)]
            self._values[key] = frozen
            self._ends[key] = self._clock() + self.ttl_s
        del dropped  # memory is given back after the lock is
        return True

    def remove_if_same(self, key: CacheKey, observed: Embedding) -> bool:
        """Drops a value found to be invalid; False when another has taken its place since it was observed."""
        with self._lock:
            if self._values.get(key) is not observed:
                return False
            self._drop(key, Eviction.INVALID)
            return True

    def purge(self, tenant: TenantId | None = None) -> int:
        """Drops all values of a tenant, or of everyone; how many there were. What is in use is found no more."""
        with self._lock:
            self._sweep()
            keys = self._books.keys() if tenant is None else self._books.of_owner(tenant)
            for key in keys:
                self._drop(key, Eviction.PURGE)
            return len(keys)

    def stats(self) -> CacheStats:
        """What it holds; bytes of values that were purged or have ended count while they are in use."""
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
            ensure(held_bytes <= self._books.size_bytes, "bytes held <= bytes in the books")

    def _drop(self, key: CacheKey, cause: Eviction) -> None:
        self._books.condemn(key)
        self._forget(key)
        self._evictions[cause] += 1

    def _forget(self, key: CacheKey) -> Embedding | None:
        self._ends.pop(key, None)
        return self._values.pop(key, None)

    def _sweep(self) -> None:
        now = self._clock()
        while self._ends and self._ends[first := next(iter(self._ends))] <= now:
            self._drop(first, Eviction.EXPIRED)

    def _unpin(self, key: CacheKey) -> None:
        with self._lock:
            self._books.unpin(key)


def _frozen(value: Embedding) -> Embedding:
    """The array if it owns its memory and cannot be written to, else a copy that cannot."""
    if value.base is None and not value.flags.writeable:
        return value
    copy = value.copy(order="C")
    copy.flags.writeable = False
    return copy
