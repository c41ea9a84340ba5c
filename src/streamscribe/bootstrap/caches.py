"""The caches of a process, from its settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from os.path import isdir, lexists, realpath
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.bootstrap.extras import need_extras
from streamscribe.cache.blobs import Seal
from streamscribe.cache.disk import DiskBlobs
from streamscribe.cache.features import Features
from streamscribe.cache.levels import BlobLevel, EmbeddingLevel, Level, Levels
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.purges import Purges
from streamscribe.cache.resting import Rest, RestingBlobs, RestingOutputs
from streamscribe.cache.secret import cache_secret
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.cache.tiers import TieredBlobs
from streamscribe.cache.transcripts import Transcripts
from streamscribe.core.cache_worth import Turn
from streamscribe.core.cachekey import CacheKeys
from streamscribe.observe.logs import get_logger
from streamscribe.ports import BlobStore
from streamscribe.redis_url import UnusableAddress
from streamscribe.settings import CacheSettings, Settings, SettingsError

if TYPE_CHECKING:
    from streamscribe.cache.redis import RedisBlobs

READ_CONTEXT = ("whisper", "tiny", "zh")
"""Profiles with a model that reads what was said before a segment: a recogniser, or one that punctuates."""

_ROOMS = ("max_feature_cache_size", "max_transcript_bytes")
_ANY_ROOM = 2**40

COMPLAIN_EVERY_S = 60.0
"""Of one storage that fails."""

Tiers = dict[str, BlobStore]
Watched = StageOutputCache | Rest

_OpenDisk = Callable[[str, Path, Seal, int, float, float], Tiers]
"""Opens the folder of a setting."""

_TURNS = {
    Turn.RESTS: "a cache in which next to nothing is found rests",
    Turn.TRIED: "a cache that has rested is tried again",
    Turn.STAYS: "a cache that was tried again stays",
}
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """One level's blobs: all of its tiers as one, and each by name, the nearest first."""

    name: str
    tiers: Tiers
    store: RestingBlobs
    ttl_s: float

    def level(self, keys: CacheKeys) -> BlobLevel:
        """The level as it is shown and purged."""
        return BlobLevel(self.name, self.store, self.tiers, keys, ttl_s=self.ttl_s, rest=self.store.rest)


@dataclass(frozen=True, slots=True)
class Caches:
    """What one process keeps. `features` and `transcripts` are None where none are."""

    keys: CacheKeys
    fingerprints: Fingerprints
    embeddings: StageOutputCache
    features: Features | None
    levels: Levels
    purges: Purges
    kept_features: Kept | None
    transcripts: Kept | None

    @property
    def watched(self) -> Mapping[str, Watched]:
        """What is told of each level between two looks at what it holds."""
        blobs = {kept.name: kept.store.rest for kept in (self.kept_features, self.transcripts) if kept is not None}
        return {EmbeddingLevel.name: self.embeddings, **blobs}

    def open_transcripts(self) -> Transcripts | None:
        """None where none are kept."""
        kept = self.transcripts
        if kept is None:
            return None
        return Transcripts(kept.store, self.keys, self.fingerprints, ttl_s=kept.ttl_s, purges=self.purges)


def open_caches(settings: CacheSettings, *, one_tenant: bool = False) -> Caches:
    """Opens what the settings ask for; blocks while folders are read. `one_tenant` has all of each cache.

    Raises SettingsError for a folder, a secret or a Redis address that cannot be used.
    """
    if one_tenant:
        settings = settings.model_copy(update={"tenant_share": 1.0})
    _check_folders(settings)
    secret = cache_secret(settings)
    keys, seal, purges = CacheKeys(secret), Seal(secret), Purges()
    embeddings = RestingOutputs(
        partial(_say, "embeddings"),
        max_entries=int(settings.max_encoder_entries),
        max_bytes=int(settings.max_encoder_bytes),
        tenant_share=settings.tenant_share,
        ttl_s=settings.feature_ttl_s,
    )
    folders = partial(_disk, alone=True)
    kept_features = _kept_features(settings, _feature_memory(settings) | _feature_disk(settings, seal, folders))
    beyond = _transcripts_beyond(settings, seal, folders, _Complaints("cache.redis_url"))
    transcripts = _kept_transcripts(settings, _transcript_memory(settings) | beyond)
    levels: list[Level] = [EmbeddingLevel(embeddings)]
    features = None
    if kept_features is not None:
        features = Features(kept_features.store, keys, ttl_s=settings.feature_ttl_s)
        levels.append(kept_features.level(keys))
    if transcripts is not None:
        levels.append(transcripts.level(keys))
    if (trouble := redis_trouble(settings)) is not None:
        _log.warning(trouble)
    return Caches(
        keys=keys,
        fingerprints=Fingerprints(secret, settings.fingerprint),
        embeddings=embeddings,
        features=features,
        levels=Levels(levels, purges),
        purges=purges,
        kept_features=kept_features,
        transcripts=transcripts,
    )


def redis_trouble(settings: CacheSettings) -> str | None:
    """Why the Redis that the settings name is of no use now; None where it is, or none is named.

    Blocks while it is asked. Raises SettingsError for an address that cannot be used.
    """
    if settings.redis_url is None:
        return None
    if not settings.transcripts:
        return "cache.redis_url is named, but nothing is kept there: cache.transcripts is off"
    nothing_is_sealed = Seal(bytes(32))  # to look must not make a secret's file
    (redis,) = _redis(settings.redis_url.get_secret_value(), nothing_is_sealed).values()
    answers = redis.answers()
    redis.close()
    return None if answers else "no Redis answers at cache.redis_url; until it does, nothing is kept or found there"


def open_kept(settings: CacheSettings) -> Levels:
    """What outlives servers, on disk and in Redis, for who looks after it; of no level where nothing does.

    Looking takes nothing away: no bound is held here. What a level kept before it was switched off is there too, as
    long as its place is named. Raises SettingsError as `open_caches` does, and for a folder that is not there though
    its level is on: to look must not make it.
    """
    _check_folders(settings)
    settings = _without_folders_never_made(settings)
    settings = settings.model_copy(update={"transcripts": True, "tenant_share": 1.0} | dict.fromkeys(_ROOMS, _ANY_ROOM))
    if not settings.outlives_the_process:
        return Levels([])
    secret = cache_secret(settings)
    keys, seal = CacheKeys(secret), Seal(secret)
    kept = (
        _kept_features(settings, _feature_disk(settings, seal, _disk)),
        _kept_transcripts(settings, _transcripts_beyond(settings, seal, _disk, _nobody_hears)),
    )
    return Levels([one.level(keys) for one in kept if one is not None])


def _say(level: str, turn: Turn) -> None:
    _log.warning(_TURNS[turn], component=level)


def _nobody_hears() -> None:
    """Who only looks is told by what the command says."""


class _Complaints:
    """Says that the storage of a setting fails, now and then: it may do so at every look-up."""

    def __init__(self, setting: str) -> None:
        self._setting = setting
        self._again_s = 0.0

    def __call__(self) -> None:
        """It has failed."""
        now = monotonic()
        if now >= self._again_s:
            self._again_s = now + COMPLAIN_EVERY_S
            _log.warning("a cache's storage fails: what it does not take is not kept", component=self._setting)


def _check_folders(settings: CacheSettings) -> None:
    """Raises SettingsError where two levels would have one folder: each would count and evict the other's files."""
    features, texts = settings.feature_cache_dir, settings.transcript_dir
    if features and texts and realpath(features.expanduser()) == realpath(texts.expanduser()):
        raise SettingsError(f"setting cache.transcript_dir: {texts} is cache.feature_cache_dir too; give it its own")


def _without_folders_never_made(settings: CacheSettings) -> CacheSettings:
    """Without those of levels that are off, which no server has made; raises SettingsError where the level is on."""
    on = {"feature_cache_dir": int(settings.max_feature_cache_size) > 0, "transcript_dir": settings.transcripts}
    never_made: dict[str, None] = {}
    for name, is_on in on.items():
        folder: Path | None = getattr(settings, name)
        if folder is None or isdir(folder.expanduser()):
            continue
        if is_on or lexists(folder.expanduser()):
            raise SettingsError(f"setting cache.{name}: there is no folder {folder}")
        never_made[name] = None
    return settings.model_copy(update=never_made)


def _kept_features(settings: CacheSettings, tiers: Tiers) -> Kept | None:
    return _kept("features", tiers, settings.feature_ttl_s) if tiers else None


def _kept_transcripts(settings: CacheSettings, tiers: Tiers) -> Kept | None:
    return _kept("transcripts", tiers, settings.transcript_ttl_s) if tiers else None


def _kept(name: str, tiers: Tiers, ttl_s: float) -> Kept:
    return Kept(name, tiers, RestingBlobs(TieredBlobs(list(tiers.values())), partial(_say, name)), ttl_s)


def _feature_memory(settings: CacheSettings) -> Tiers:
    room = int(settings.max_feature_cache_size)
    return {"memory": MemoryBlobs(max_bytes=room, owner_share=settings.tenant_share)} if room else {}


def _feature_disk(settings: CacheSettings, seal: Seal, disk: _OpenDisk) -> Tiers:
    room, folder = int(settings.max_feature_cache_size), settings.feature_cache_dir
    if not room or not folder:
        return {}
    return disk("feature_cache_dir", folder, seal, room, settings.tenant_share, settings.feature_ttl_s)


def _transcript_memory(settings: CacheSettings) -> Tiers:
    if not settings.transcripts:
        return {}
    return {"memory": MemoryBlobs(max_bytes=int(settings.max_transcript_bytes), owner_share=settings.tenant_share)}


def _transcripts_beyond(
    settings: CacheSettings, seal: Seal, disk: _OpenDisk, on_redis_failure: Callable[[], None]
) -> Tiers:
    if not settings.transcripts:
        return {}
    tiers: Tiers = {}
    if settings.transcript_dir is not None:
        room = int(settings.max_transcript_bytes)
        ttl_s = settings.transcript_ttl_s
        tiers |= disk("transcript_dir", settings.transcript_dir, seal, room, settings.tenant_share, ttl_s)
    if settings.redis_url is not None:
        tiers |= _redis(settings.redis_url.get_secret_value(), seal, on_redis_failure)
    return tiers


def _disk(
    setting: str, folder: Path, seal: Seal, max_bytes: int, owner_share: float, ttl_s: float, *, alone: bool = False
) -> Tiers:
    place = folder.expanduser()
    try:
        return {
            "disk": DiskBlobs(
                place,
                seal,
                max_bytes=max_bytes,
                owner_share=owner_share,
                alone=alone,
                max_ttl_s=ttl_s if alone else inf,
                on_failure=_Complaints(f"cache.{setting}") if alone else _nobody_hears,
            )
        }
    except OSError as error:
        raise SettingsError(f"setting cache.{setting}: {folder}: {error.strerror}") from None


def _redis(url: str, seal: Seal, on_failure: Callable[[], None] = _nobody_hears) -> dict[str, "RedisBlobs"]:
    need_extras("setting cache.redis_url", "redis")
    from streamscribe.cache.redis import RedisBlobs

    try:
        return {"redis": RedisBlobs(url, seal, on_failure=on_failure)}
    except UnusableAddress as error:
        raise SettingsError(f"setting cache.redis_url: {error}") from None


def check_context(settings: Settings) -> None:
    """Raises SettingsError where what was said before is to help models none of which reads on from there."""
    if settings.cache.context_cache_ttl and settings.model.profile not in READ_CONTEXT:
        raise SettingsError(
            f"setting cache.context_cache_ttl: only these profiles read on from earlier text: {', '.join(READ_CONTEXT)}"
        )
