"""The books of blobs that are kept for a time: the least recently used and the expired go."""

import heapq

from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.integrity import ensure
from streamscribe.core.lru import Lru

MAX_ENTRIES = 100_000
"""Blobs of one store, unless it is told otherwise: what its books need in memory is bounded by it."""

PROTECTED_SHARE = 0.8


class ExpiringBooks:
    """An `Lru` whose keys also have an end. Not thread-safe; times are of the caller's clock, in seconds."""

    def __init__(self, max_entries: int, max_bytes: int, owner_share: float) -> None:
        self._books: Lru[CacheKey] = Lru(
            max_entries, max_bytes, protected_share=PROTECTED_SHARE, owner_share=owner_share
        )
        self._expires: dict[CacheKey, float] = {}
        self._ends: list[tuple[float, CacheKey]] = []

    def __len__(self) -> int:
        return len(self._books)

    def __contains__(self, key: CacheKey) -> bool:
        return key in self._books

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys held."""
        return self._books.size_bytes

    def keys(self, owner: Owner | None = None) -> list[CacheKey]:
        """The keys of an owner, or all."""
        return self._books.keys() if owner is None else self._books.of_owner(owner)

    def expires(self, key: CacheKey) -> float:
        """When a held key ends."""
        return self._expires[key]

    def get(self, key: CacheKey, now: float) -> bool:
        """Whether it is held and has not ended; it counts as used now."""
        return self._expires.get(key, now) > now and self._books.get(key)

    def put(self, key: CacheKey, size_bytes: int, owner: Owner, expires: float) -> list[CacheKey] | None:
        """Holds the key; returns what is evicted for it, or None when there is no room and nothing changes."""
        evicted = self._books.put(key, size_bytes, owner)
        if evicted is None:
            return None
        for old in evicted:
            del self._expires[old]
        self._expires[key] = expires
        heapq.heappush(self._ends, (expires, key))
        if len(self._ends) > 2 * len(self._expires) + 64:  # most of them are of keys that left before their end
            self._ends = [(end, key) for key, end in self._expires.items()]
            heapq.heapify(self._ends)
        return evicted

    def remove(self, key: CacheKey) -> bool:
        """Forgets a key; False when it is not held."""
        self._expires.pop(key, None)
        return self._books.remove(key)

    def expired(self, now: float) -> list[CacheKey]:
        """Forgets the keys that have ended, and tells them."""
        ended: list[CacheKey] = []
        while self._ends and self._ends[0][0] <= now:
            end, key = heapq.heappop(self._ends)
            if self._expires.get(key) == end:
                self.remove(key)
                ended.append(key)
        return ended

    def check_integrity(self) -> None:
        """The books' equation; each key held has one end, which is known in order."""
        self._books.check_integrity()
        ensure(set(self._books.keys()) == self._expires.keys(), "each key has an end")
        ensure({(end, key) for key, end in self._expires.items()} <= set(self._ends), "each end is in order")
