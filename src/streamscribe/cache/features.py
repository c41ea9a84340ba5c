"""What front ends make of audio (filter banks, log-mel rows), kept by fingerprint and front end."""

from contextlib import suppress

import numpy as np

from streamscribe.cache.blobs import pack, unpack
from streamscribe.core.cachekey import CacheKey, CacheKeys
from streamscribe.core.errors import CacheUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.models.ports import EncoderInput
from streamscribe.ports import BlobStore

KIND = "features"


class Features:
    """Keeps rows for at most `ttl_s` in blobs; blocking and safe to use from many threads, as those are.

    Keys are the caller's, and hold all that the rows depend on. What does not read as rows is a miss, and removed.
    """

    def __init__(self, blobs: BlobStore, keys: CacheKeys, *, ttl_s: float) -> None:
        self._blobs = blobs
        self._keys = keys
        self._ttl_s = ttl_s

    def get(self, key: CacheKey) -> EncoderInput | None:
        """The rows, which cannot be written to, exactly as they were put."""
        blob = self._blobs.get(key)
        rows = None if blob is None else unpack(KIND, blob.data)
        if rows is not None and (rows.ndim != 2 or rows.dtype != np.float32):
            rows = None
        if blob is not None and rows is None:
            with suppress(CacheUnavailable):
                self._blobs.remove(key)
        return rows

    def put(self, tenant: TenantId | None, key: CacheKey, rows: EncoderInput) -> None:
        """Keeps them where there is room."""
        self._blobs.put(self._keys.owner(tenant), key, pack(KIND, rows), self._ttl_s)
