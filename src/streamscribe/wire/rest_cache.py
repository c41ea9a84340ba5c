"""What `/v1/cache` answers: what the server keeps, and what was purged."""

from collections.abc import Mapping

import msgspec


class Tier(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place of a level. Figures are absent where they would tell of other tenants; `failures` are calls that its
    storage failed."""

    tier: str
    available: bool | None = None
    entries: int | None = None
    bytes: int | None = None
    damaged: int | None = None
    failures: int | None = None


class Level(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kind of what is kept; `ttl_s` is how long at most, absent where only room bounds it.

    `resting`: it is neither asked nor filled for a while, as next to nothing was found there.
    """

    level: str
    tiers: tuple[Tier, ...]
    ttl_s: float | None = None
    hits: int | None = None
    misses: int | None = None
    resting: bool | None = None


class CacheState(msgspec.Struct, frozen=True):
    """What is kept; with `zero_retention` nothing of the one who asks."""

    levels: tuple[Level, ...]
    zero_retention: bool = False
    object: str = "cache"


class Purged(msgspec.Struct, frozen=True):
    """How many things each level had and has no more, in so many `workers`, where there are several."""

    purged: Mapping[str, int]
    object: str = "cache.purged"
    workers: int | msgspec.UnsetType = msgspec.UNSET
