"""Blobs in Redis, which several servers of one secret share: one sealed string each, with Redis' own time to live."""

import time
from collections.abc import Callable, Iterator
from math import inf
from threading import Lock
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamscribe.cache.blobs import SEAL_HEADER_BYTES, Seal, Sealed
from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.errors import CacheUnavailable
from streamscribe.ports import Blob, Usage, Verified
from streamscribe.redis_url import client_of

PREFIX = "streamscribe:cache:"
MAX_BLOB_BYTES = 16 * 2**20

_UNREACHABLE = (redis.ConnectionError, redis.TimeoutError)
_SCAN_COUNT = 500
_NOT_REACHABLE = "Redis cannot be reached"


class RedisBlobs:
    """A `BlobStore` whose bound and eviction are those of the Redis server (`maxmemory`, `maxmemory-policy`).

    A server that cannot be reached costs one `timeout_s`, then nothing is asked of it for `hold_off_s`. Owners are
    found in the blobs' seals, not in an index that an eviction could take away: purge and usage of `n` blobs walk all
    keys of the database. Raises ValueError for what is not a Redis URL; connects at the first use.
    """

    def __init__(
        self,
        url: str,
        seal: Seal,
        *,
        prefix: str = PREFIX,
        timeout_s: float = 0.25,
        hold_off_s: float = 1.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` tells when blobs end, which servers agree on; `monotonic` when a server is asked again, which a clock
        that is set must not decide. `on_failure` hears of each call that failed; it must be quick."""
        self._redis = _client(url, timeout_s)
        self._seal = seal
        self._prefix = prefix
        self._hold_off_s = hold_off_s
        self._clock = clock
        self._monotonic = monotonic
        self._on_failure = on_failure
        self._asked_again_s = -inf
        self._damaged = self._failures = 0
        self._lock = Lock()

    def answers(self) -> bool:
        """Whether the server answers now; it is asked in any case, and waited for as long as for anything."""
        try:
            return bool(self._redis.ping())
        except redis.RedisError:
            return False

    def get(self, key: CacheKey) -> Blob | None:
        """The blob; Redis' policy decides what a use counts for."""
        stored = self._try(lambda: self._redis.get(self._name(key)))
        if stored is None:
            return None
        sealed = self._seal.open(key, stored)
        if sealed is None:
            self._found_damaged()
            self._try(lambda: self._redis.unlink(self._name(key)))
            return None
        ttl_s = sealed.expires_ms / 1000 - self._clock()
        return Blob(sealed.data, sealed.owner, ttl_s) if ttl_s > 0 else None

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it for `ttl_s`; False when it is larger than `MAX_BLOB_BYTES`, or Redis does not take it."""
        ttl_ms = int(ttl_s * 1000)
        if ttl_ms <= 0 or len(data) > MAX_BLOB_BYTES:
            return False
        stored = self._seal.close(key, Sealed(data, owner, int(self._clock() * 1000) + ttl_ms))
        return bool(self._try(lambda: self._redis.set(self._name(key), stored, px=ttl_ms)))

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob; False when it is not there. Raises CacheUnavailable."""
        return bool(self._must(lambda: self._redis.unlink(self._name(key))))

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone; raises CacheUnavailable, and some may be gone then."""
        return int(self._must(lambda: sum(self._purge(names, owner) for names in self._names())))

    def usage(self) -> Usage:
        """What it holds: strings and their bytes."""
        try:
            sizes = self._must(lambda: [size for names in self._names() for size in self._sizes(names)])
        except CacheUnavailable:
            return Usage(0, 0, self._damaged, self._failures, available=False)
        return Usage(len(sizes), sum(sizes), self._damaged, self._failures)

    def sweep(self) -> None:
        """Nothing: Redis does it."""

    def verify(self) -> Verified:
        """Reads all blobs again and removes the damaged; raises CacheUnavailable."""
        done = self._must(lambda: [self._verify(name) for names in self._names() for name in names])
        return Verified(len(done), done.count(False))

    def close(self) -> None:
        """Closes the connections."""
        self._redis.close()

    def _name(self, key: CacheKey) -> str:
        return f"{self._prefix}{key}"

    def _names(self) -> Iterator[list[bytes]]:
        """The names of all blobs, some hundred at a time; each once, though SCAN may tell it twice."""
        names = set(self._redis.scan_iter(match=f"{self._prefix}*", count=_SCAN_COUNT))
        ordered = sorted(names)
        for start in range(0, len(ordered), _SCAN_COUNT):
            yield ordered[start : start + _SCAN_COUNT]

    def _sizes(self, names: list[bytes]) -> list[int]:
        with self._redis.pipeline(transaction=False) as asked:
            for name in names:
                asked.strlen(name)
            return [size for size in _answers(asked) if size]

    def _purge(self, names: list[bytes], owner: Owner | None) -> int:
        if owner is not None:
            with self._redis.pipeline(transaction=False) as asked:
                for name in names:
                    asked.getrange(name, 0, SEAL_HEADER_BYTES - 1)
                told = [None if header is None else self._seal.peek(header) for header in _answers(asked)]
            names = [name for name, seal in zip(names, told, strict=True) if seal is not None and seal[0] == owner]
        return int(self._redis.unlink(*names)) if names else 0

    def _verify(self, name: bytes) -> bool:
        key = CacheKey(name.removeprefix(self._prefix.encode()).decode(errors="replace"))
        with self._redis.pipeline(transaction=False) as asked:
            (stored,) = _answers(asked.get(name), b"")
        whole = stored is None or self._seal.open(key, stored) is not None
        if not whole:
            self._found_damaged()
            self._redis.unlink(name)
        return whole

    def _found_damaged(self) -> None:
        with self._lock:
            self._damaged += 1

    def _fail(self) -> None:
        with self._lock:
            self._failures += 1
        self._on_failure()

    def _try(self, ask: Callable[[], Any]) -> Any:
        """What Redis answers, or None when it does not, counted; it is left alone for a while then."""
        try:
            return self._must(ask)
        except CacheUnavailable:
            return None

    def _must(self, ask: Callable[[], Any]) -> Any:
        """What Redis answers; raises CacheUnavailable."""
        if self._monotonic() < self._asked_again_s:
            self._fail()
            raise CacheUnavailable(_NOT_REACHABLE)
        try:
            return ask()
        except _UNREACHABLE:
            self._fail()
            self._asked_again_s = self._monotonic() + self._hold_off_s
            raise CacheUnavailable(_NOT_REACHABLE) from None
        except redis.RedisError:
            self._fail()
            raise CacheUnavailable("Redis refused what the cache asked") from None


def _answers(asked: Any, of_others: bytes | None = None) -> list[Any]:
    """What Redis answers to each of several questions; `of_others` about a key that is no string, so none of ours."""
    told = asked.execute(raise_on_error=False)
    for one in told:
        if isinstance(one, Exception) and not _is_of_others(one):
            raise one
    return [of_others if isinstance(one, Exception) else one for one in told]


def _is_of_others(error: Exception) -> bool:
    return isinstance(error, redis.ResponseError) and str(error).startswith("WRONGTYPE")


def _client(url: str, timeout_s: float) -> Any:
    """One that has not connected yet; raises ValueError for an address by which none could."""
    retry = Retry(NoBackoff(), 0)
    return client_of(
        url,
        lambda url: redis.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=retry),
    )
