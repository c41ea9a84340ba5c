"""Blobs in this process' memory."""

import time
from collections.abc import Callable
from threading import Lock

from streamscribe.cache.expiry import MAX_ENTRIES, ExpiringBooks
from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.integrity import ensure
from streamscribe.ports import Blob, Usage, Verified


class MemoryBlobs:
    """A `BlobStore` of at most `max_bytes`, of which one owner has at most its share; the least recently used go.

    What has expired is let go of at the next call but `get`.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_entries: int = MAX_ENTRIES,
        owner_share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = ExpiringBooks(max_entries, max_bytes, owner_share)
        self._blobs: dict[CacheKey, tuple[Owner, bytes]] = {}
        self._clock = clock
        self._lock = Lock()

    def get(self, key: CacheKey) -> Blob | None:
        """The blob, which counts as used now."""
        with self._lock:
            now = self._clock()
            if not self._books.get(key, now):
                return None
            owner, data = self._blobs[key]
            return Blob(data, owner, self._books.expires(key) - now)

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it for `ttl_s`; False when it is larger than the owner's share."""
        if ttl_s <= 0:
            return False
        with self._lock:
            now = self._clock()
            self._sweep(now)
            evicted = self._books.put(key, len(data), owner, now + ttl_s)
            if evicted is None:
                return False
            for old in evicted:
                del self._blobs[old]
            self._blobs[key] = owner, data
            return True

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob; False when it is not there."""
        with self._lock:
            self._sweep(self._clock())
            self._blobs.pop(key, None)
            return self._books.remove(key)

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone; how many there were."""
        with self._lock:
            self._sweep(self._clock())
            keys = self._books.keys(owner)
            for key in keys:
                self._books.remove(key)
                del self._blobs[key]
            return len(keys)

    def usage(self) -> Usage:
        """What it holds."""
        with self._lock:
            self._sweep(self._clock())
            return Usage(len(self._books), self._books.size_bytes)

    def sweep(self) -> None:
        """Lets go of what has ended."""
        with self._lock:
            self._sweep(self._clock())

    def verify(self) -> Verified:
        """Nothing is ever damaged here."""
        return Verified(self.usage().entries, 0)

    def close(self) -> None:
        """Nothing to let go of."""

    def check_integrity(self) -> None:
        """The books' equation; what is in the books is held with that size, and nothing else."""
        with self._lock:
            self._books.check_integrity()
            ensure(set(self._books.keys()) == self._blobs.keys(), "held == in the books")
            ensure(sum(len(data) for _, data in self._blobs.values()) == self._books.size_bytes, "bytes add up")

    def _sweep(self, now: float) -> None:
        for key in self._books.expired(now):
            del self._blobs[key]
