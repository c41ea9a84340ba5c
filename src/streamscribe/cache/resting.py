"""Caches that rest where next to nothing is found in them: `core.cache_worth` with a lock and a clock."""

import time
from collections.abc import Callable
from math import inf
from threading import Lock

from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.cache_worth import USUAL, CacheWorth, Turn, WorthPolicy
from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.ids import TenantId
from streamscribe.models.ports import Embedding
from streamscribe.ports import Blob, BlobStore, Usage, Verified


class Rest:
    """Asked before each look-up, and told what came of it; safe to use from many threads.

    `on_turn` hears when the cache goes to rest, is tried again, and stays; it is called in the thread that looked up,
    outside the lock.
    """

    def __init__(
        self,
        on_turn: Callable[[Turn], None],
        policy: WorthPolicy = USUAL,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_turn = on_turn
        self._worth = CacheWorth(policy)
        self._clock = clock
        self._lock = Lock()

    def resting(self) -> bool:
        """Whether the cache is to be left alone now: neither asked nor filled."""
        with self._lock:
            turn = self._worth.begin(self._clock())
            resting = self._worth.resting
        self._tell(turn)
        return resting

    def count(self, *, found: bool) -> None:
        """A look-up is over."""
        with self._lock:
            turn = self._worth.looked_up(self._clock(), found=found)
        self._tell(turn)

    def _tell(self, turn: Turn | None) -> None:
        if turn is not None:
            self._on_turn(turn)


class RestingOutputs(StageOutputCache):
    """Keeps nothing while it rests, and gives its memory back."""

    def __init__(
        self,
        on_turn: Callable[[Turn], None],
        policy: WorthPolicy = USUAL,
        *,
        max_entries: int,
        max_bytes: int,
        tenant_share: float,
        ttl_s: float = inf,
    ) -> None:
        super().__init__(max_entries=max_entries, max_bytes=max_bytes, tenant_share=tenant_share, ttl_s=ttl_s)
        self._on_turn = on_turn
        self._rest = Rest(self._turned, policy)

    def get(self, key: CacheKey) -> Embedding | None:
        """The value, which counts as used now; None while it rests."""
        if self._rest.resting():
            return None
        value = super().get(key)
        self._rest.count(found=value is not None)
        return value

    def put(self, tenant: TenantId | None, key: CacheKey, value: Embedding) -> bool:
        """As of any such cache; False while it rests."""
        return not self._rest.resting() and super().put(tenant, key, value)

    def _turned(self, turn: Turn) -> None:
        if turn is Turn.RESTS:
            self.purge()
        self._on_turn(turn)


class RestingBlobs:
    """A `BlobStore` before another: while it rests nothing is got or put; what is kept stays, and can be purged."""

    def __init__(self, blobs: BlobStore, on_turn: Callable[[Turn], None], policy: WorthPolicy = USUAL) -> None:
        self._blobs = blobs
        self._rest = Rest(on_turn, policy)

    def get(self, key: CacheKey) -> Blob | None:
        """The blob, which counts as used now; None while it rests."""
        if self._rest.resting():
            return None
        blob = self._blobs.get(key)
        self._rest.count(found=blob is not None)
        return blob

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it; False while it rests."""
        return not self._rest.resting() and self._blobs.put(owner, key, data, ttl_s)

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob."""
        return self._blobs.remove(key)

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone."""
        return self._blobs.purge(owner)

    def usage(self) -> Usage:
        """What is kept."""
        return self._blobs.usage()

    def verify(self) -> Verified:
        """Reads all blobs again and removes the damaged."""
        return self._blobs.verify()

    def close(self) -> None:
        """Lets go of connections."""
        self._blobs.close()
