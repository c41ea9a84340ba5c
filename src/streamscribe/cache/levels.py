"""All that this server keeps, level by level: shown, purged and verified as one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, TypeVar

from streamscribe.cache.purges import Purges
from streamscribe.cache.resting import Rest
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.cache.tally import Asked
from streamscribe.core.cachekey import CacheKey, CacheKeys
from streamscribe.core.errors import CacheUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.ports import BlobStore, Usage, Verified
from streamscribe.wire import rest_cache

Told = TypeVar("Told")

_MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class LevelFacts:
    """What a level holds in each of its tiers, for how long at most, how often it was asked, and whether it rests."""

    level: str
    ttl_s: float | None
    tiers: Mapping[str, Usage]
    asked: Asked | None = None
    rests: bool = False

    def told(self) -> rest_cache.Level:
        """The same as it is told."""
        tiers = tuple(
            rest_cache.Tier(name, usage.available, usage.entries, usage.size_bytes, usage.damaged, usage.failures)
            for name, usage in self.tiers.items()
        )
        hits, misses = (None, None) if self.asked is None else (self.asked.hits, self.asked.misses)
        return rest_cache.Level(self.level, tiers, self.ttl_s, hits, misses, self.rests or None)


class Level(Protocol):
    """One kind of thing that is kept. Methods block, as those of `BlobStore` do, and raise CacheUnavailable."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def outline(self) -> rest_cache.Level:
        """Its names and how long it keeps at most, without a look at what it holds."""
        ...

    def facts(self) -> LevelFacts:
        """What it holds. Never raises."""
        ...

    def sweep(self) -> None:
        """Lets go of what has ended; never raises."""
        ...

    def purge(self, tenant: TenantId | None) -> int:
        """Forgets all of a tenant, or of everyone; how many things there were."""
        ...

    def remove(self, key: CacheKey) -> bool:
        """Forgets one thing."""
        ...

    def verify(self) -> Verified:
        """Reads everything again, and removes what is damaged."""
        ...

    def close(self) -> None:
        """Lets go of connections; what is kept stays."""
        ...


class BlobLevel:
    """A level in blobs. `tiers` are the parts of `store` by name."""

    def __init__(
        self,
        name: str,
        store: BlobStore,
        tiers: Mapping[str, BlobStore],
        keys: CacheKeys,
        *,
        ttl_s: float,
        rest: Rest | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._tiers = tiers
        self._keys = keys
        self._ttl_s = ttl_s
        self._rest = rest

    def outline(self) -> rest_cache.Level:
        """The names of its tiers."""
        return rest_cache.Level(self.name, tuple(map(rest_cache.Tier, self._tiers)), self._ttl_s)

    def sweep(self) -> None:
        """Lets go of what has ended in all tiers."""
        self._store.sweep()

    def facts(self) -> LevelFacts:
        """What each tier holds."""
        usage = {name: tier.usage() for name, tier in self._tiers.items()}
        if self._rest is None:
            return LevelFacts(self.name, self._ttl_s, usage)
        return LevelFacts(self.name, self._ttl_s, usage, self._rest.asked, self._rest.rests)

    def purge(self, tenant: TenantId | None) -> int:
        """Forgets all of a tenant, or of everyone, in all tiers."""
        return self._store.purge(None if tenant is None else self._keys.owner(tenant))

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob."""
        return self._store.remove(key)

    def verify(self) -> Verified:
        """Checks the MAC of every blob."""
        return self._store.verify()

    def close(self) -> None:
        """Closes all tiers."""
        self._store.close()


class EmbeddingLevel:
    """The encoder outputs, in this process' memory only."""

    name = "embeddings"

    def __init__(self, cache: StageOutputCache) -> None:
        self._cache = cache
        self._ttl_s = cache.ttl_s if isfinite(cache.ttl_s) else None

    def outline(self) -> rest_cache.Level:
        """That it is in memory."""
        return rest_cache.Level(self.name, (rest_cache.Tier(_MEMORY),), self._ttl_s)

    def sweep(self) -> None:
        """Lets go of what has ended."""
        self._cache.sweep()

    def facts(self) -> LevelFacts:
        """What it holds."""
        stats = self._cache.stats()
        tiers = {_MEMORY: Usage(stats.entries, stats.size_bytes)}
        return LevelFacts(self.name, self._ttl_s, tiers, self._cache.asked, self._cache.rests)

    def purge(self, tenant: TenantId | None) -> int:
        """Forgets all of a tenant, or of everyone."""
        return self._cache.purge(tenant)

    def remove(self, key: CacheKey) -> bool:
        """Its keys are known to nobody."""
        return False

    def verify(self) -> Verified:
        """Each value is checked when it is used."""
        return Verified(self._cache.stats().entries, 0)

    def close(self) -> None:
        """Nothing to let go of."""


class Levels:
    """The levels of one server. What is to be gone is gone from all that can be reached before an error is raised."""

    def __init__(self, levels: Sequence[Level], purges: Purges | None = None) -> None:
        """`purges` is that of whoever puts things into these levels."""
        self._levels = levels
        self._purges = purges or Purges()

    def outline(self) -> list[rest_cache.Level]:
        """What there is, without a look at what it holds: at once, and as quick whatever that is."""
        return [level.outline() for level in self._levels]

    def sweep(self) -> None:
        """Lets go of what has ended: levels that nobody uses do not find out by themselves."""
        for level in self._levels:
            level.sweep()

    def facts(self) -> list[LevelFacts]:
        """What each holds; may take as long as reading all keys."""
        return [level.facts() for level in self._levels]

    def purge(self, tenant: TenantId | None = None) -> dict[str, int]:
        """Forgets all of a tenant, or of everyone; how many things each level had. Raises CacheUnavailable.

        It holds for what is on its way: work that began before keeps nothing.
        """
        self._purges.purge(tenant)
        return self._of_all(lambda level: level.purge(tenant))

    def remove(self, key: CacheKey) -> bool:
        """Forgets one thing, whatever its level; False when it is not there. Raises CacheUnavailable."""
        return any(self._of_all(lambda level: level.remove(key)).values())

    def verify(self) -> dict[str, Verified]:
        """Reads everything again; what was damaged is removed. Raises CacheUnavailable."""
        return self._of_all(lambda level: level.verify())

    def close(self) -> None:
        """Lets go of connections."""
        for level in self._levels:
            level.close()

    def _of_all(self, ask: Callable[[Level], Told]) -> dict[str, Told]:
        told: dict[str, Told] = {}
        unavailable: CacheUnavailable | None = None
        for level in self._levels:
            try:
                told[level.name] = ask(level)
            except CacheUnavailable as error:
                unavailable = error
        if unavailable is not None:
            raise unavailable
        return told
