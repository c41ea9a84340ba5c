"""Caches that rest where next to nothing is found in them: `core.cache_worth` with a lock and a clock."""

import time
from collections.abc import Callable, Hashable
from math import inf
from threading import Lock

from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.cache.tally import Asked, Tally
from streamscribe.core.cache_worth import USUAL, CacheWorth, Turn, WorthPolicy
from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.ids import TenantId
from streamscribe.models.ports import Embedding
from streamscribe.ports import Blob, BlobStore, Usage, Verified


class Rest:
    """Asked before each look-up, and told what came of it; safe to use from many threads.

    What is looked up while the cache rests is not counted: it says nothing of what would have been found.

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
        self._tally = Tally()
        self._clock = clock
        self._lock = Lock()

    def resting(self) -> bool:
        """Whether the cache is to be left alone now: neither asked nor filled."""
        with self._lock:
            turn = self._worth.begin(self._clock())
            resting = self._worth.resting
        self._tell(turn)
        return resting

    @property
    def rests(self) -> bool:
        """The same, for who only looks on: a rest that is over begins its trial at the next look-up."""
        with self._lock:
            return self._worth.resting

    @property
    def asked(self) -> Asked:
        """The look-ups that were counted."""
        return self._tally.read()

    def count(self, *, found: bool) -> None:
        """A look-up is over."""
        with self._lock:
            if not self._worth.resting:
                self._tally.count(hit=found)
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
        return None if self._rest.resting() else super().get(key)

    def put(self, tenant: TenantId | None, key: CacheKey, value: Embedding, namespace: Hashable = None) -> bool:
        """As of any such cache; False while it rests."""
        if self._rest.resting() or not super().put(tenant, key, value, namespace):
            return False
        if self._rest.rests:  # since it was asked: this may have come after all else was given back
            self.purge()
            return False
        return True

    def looked_up(self, *, found: bool) -> None:
        """A request was looked up, and found or not: that decides on the rest."""
        self._rest.count(found=found)

    @property
    def asked(self) -> Asked:
        """The look-ups that were told, but for those while it rested."""
        return self._rest.asked

    @property
    def rests(self) -> bool:
        """Whether it is left alone now."""
        return self._rest.rests

    def _turned(self, turn: Turn) -> None:
        if turn is Turn.RESTS:
            self.purge()
        self._on_turn(turn)


class RestingBlobs:
    """A `BlobStore` before another: while it rests nothing is got or put; what is kept stays, and can be purged."""

    def __init__(self, blobs: BlobStore, on_turn: Callable[[Turn], None], policy: WorthPolicy = USUAL) -> None:
        self._blobs = blobs
        self.rest = Rest(on_turn, policy)
        """What was found here, and whether it rests."""

    def get(self, key: CacheKey) -> Blob | None:
        """The blob, which counts as used now; None while it rests."""
        if self.rest.resting():
            return None
        blob = self._blobs.get(key)
        self.rest.count(found=blob is not None)
        return blob

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it; False while it rests."""
        return not self.rest.resting() and self._blobs.put(owner, key, data, ttl_s)

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob."""
        return self._blobs.remove(key)

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone."""
        return self._blobs.purge(owner)

    def usage(self) -> Usage:
        """What is kept."""
        return self._blobs.usage()

    def sweep(self) -> None:
        """Lets go of what has ended."""
        self._blobs.sweep()

    def verify(self) -> Verified:
        """Reads all blobs again and removes the damaged."""
        return self._blobs.verify()

    def close(self) -> None:
        """Lets go of connections."""
        self._blobs.close()
