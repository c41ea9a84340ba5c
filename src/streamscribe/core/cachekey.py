"""The only place where cache keys are derived: by the server, from the authenticated tenant (law 9).

A key is a keyed BLAKE2b-256 digest of an injective encoding, so that equal keys mean equal tenant, kind and fields, and
nobody without the secret can make or guess one. Its form, 64 hex digits, is safe as a file name.
"""

from hashlib import blake2b
from typing import NewType

from streamscribe.core.ids import TenantId

CacheKey = NewType("CacheKey", str)

Owner = NewType("Owner", str)
"""Whose a cached thing is: a keyed digest, so that what outlives the process never tells a tenant's name."""

Field = str | bytes | int | None

MIN_SECRET_BYTES = 16


def encode(*fields: Field) -> bytes:
    """The fields with their types and lengths; different sequences never have equal encodings.

    A bool counts as the int it is.
    """
    return b"".join(_encode_one(field) for field in fields)


class CacheKeys:
    """Derives the keys of one server; raises ValueError for a secret that is too short."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the cache secret must have at least {MIN_SECRET_BYTES} bytes")
        self._secret = blake2b(secret, digest_size=32, person=b"cache secret").digest()

    def owner(self, tenant: TenantId | None) -> Owner:
        """The tenant as caches that outlive the process know it; None is the owner of what has no tenant."""
        return Owner(blake2b(encode(tenant), digest_size=32, key=self._secret, person=b"cache owner").hexdigest())

    def derive(self, tenant: TenantId | None, kind: str, *fields: Field) -> CacheKey:
        """The key of what `fields` describe, of one kind (one cache), for one tenant."""
        digest = blake2b(encode(tenant, kind, *fields), digest_size=32, key=self._secret, person=b"cache key")
        return CacheKey(digest.hexdigest())


def _encode_one(field: Field) -> bytes:
    match field:
        case None:
            tag, data = b"n", b""
        case bytes():
            tag, data = b"b", field
        case str():
            tag, data = b"s", field.encode("utf-8", "surrogatepass")
        case _:
            tag, data = b"i", b"%d" % field
    return tag + len(data).to_bytes(8, "big") + data
