"""Several blob stores behind one another, the nearest first."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.errors import CacheUnavailable
from streamscribe.ports import Blob, BlobStore, Usage, Verified

Told = TypeVar("Told")


class TieredBlobs:
    """A `BlobStore` of stores: what is put goes into all, and what a far one has is brought nearer when it is used.

    Numbers of blobs are those of the tier that has most of them. What is to be gone is gone from every tier that can
    be reached before CacheUnavailable tells of one that cannot.
    """

    def __init__(self, tiers: Sequence[BlobStore]) -> None:
        self._tiers = tiers
        self._lock = Lock()
        self._removals = 0

    def get(self, key: CacheKey) -> Blob | None:
        """The blob of the nearest tier that has it."""
        removals = self._removals
        for depth, tier in enumerate(self._tiers):
            blob = tier.get(key)
            if blob is not None:
                self._promote(key, blob, depth, removals)
                return blob
        return None

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it in every tier; False when none keeps it."""
        kept = [tier.put(owner, key, data, ttl_s) for tier in self._tiers]
        return any(kept)

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob; False when no tier had it."""
        return any(self._of_every_tier(lambda tier: tier.remove(key), removes=True))

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone; how many the tier had that had most."""
        return max(self._of_every_tier(lambda tier: tier.purge(owner), removes=True))

    def usage(self) -> Usage:
        """Entries of the tier that has most; bytes, damaged and failures of all; available if every tier is."""
        tiers = [tier.usage() for tier in self._tiers]
        return Usage(
            max(usage.entries for usage in tiers),
            sum(usage.size_bytes for usage in tiers),
            sum(usage.damaged for usage in tiers),
            sum(usage.failures for usage in tiers),
            all(usage.available for usage in tiers),
        )

    def sweep(self) -> None:
        """Every tier."""
        for tier in self._tiers:
            tier.sweep()

    def verify(self) -> Verified:
        """Every tier; the blobs checked of the tier that has most, and all that were damaged."""
        tiers = self._of_every_tier(lambda tier: tier.verify())
        return Verified(max(done.checked for done in tiers), sum(done.damaged for done in tiers))

    def close(self) -> None:
        """Closes every tier."""
        for tier in self._tiers:
            tier.close()

    def _promote(self, key: CacheKey, blob: Blob, depth: int, removals: int) -> None:
        """Brings a blob into nearer tiers, unless something was purged since it was asked for: it might be that."""
        if not depth:
            return
        with self._lock:
            if removals == self._removals:
                for nearer in self._tiers[:depth]:
                    nearer.put(blob.owner, key, blob.data, blob.ttl_s)

    def _of_every_tier(self, ask: Callable[[BlobStore], Told], *, removes: bool = False) -> list[Told]:
        """The farthest first: what was read there before it was gone is nearer before that is asked, or never."""
        told: list[Told] = []
        unavailable: CacheUnavailable | None = None
        for tier in reversed(self._tiers):
            try:
                told.append(ask(tier))
            except CacheUnavailable as error:
                unavailable = error
            with self._lock:
                self._removals += removes
        if unavailable is not None:
            raise unavailable
        return told
