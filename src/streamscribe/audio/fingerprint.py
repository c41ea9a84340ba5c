"""A clip's fingerprint: what caches know it by, made here from the samples themselves and never taken from a client.

It is keyed by the server's secret and the tenant, so that it tells nobody outside what was said, and equal clips of two
tenants have nothing in common (law 9). A fast hash without a key would not do: two clips of speech with equal xxh3-128
are made without any search.
"""

import hmac
from hashlib import blake2b
from typing import Literal

import numpy as np
from blake3 import blake3

from streamscribe.audio.g711 import Samples
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.cachekey import MIN_SECRET_BYTES, encode
from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import TenantId

Algorithm = Literal["blake3", "hmac-sha256"]

_SCHEMA = 1
_CHANNELS = "one channel"
_DTYPE = "<f4"


class Fingerprints:
    """Makes the fingerprints of one server; safe to use from many threads.

    Raises ValueError for a secret that is too short. `hmac-sha256` is a FIPS algorithm; it takes three times as long.
    """

    def __init__(self, secret: bytes, algorithm: Algorithm = "blake3") -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the cache secret must have at least {MIN_SECRET_BYTES} bytes")
        self._secret = secret
        self._algorithm = algorithm

    def of(self, tenant: TenantId | None, samples: Samples) -> str:
        """256 bits in hexadecimal of 16 kHz float32 samples, shape (samples,); all of them count, and how many.

        -0.0 counts as 0.0, for no front end tells them apart. Raises BadRequest for a sample that is no number.
        """
        if samples.ndim != 1:
            raise ValueError("samples of one channel are needed")
        if not np.isfinite(samples).all():
            raise BadRequest("audio has samples that are not finite numbers", field="audio")
        header = encode(_SCHEMA, SAMPLE_RATE, _CHANNELS, _DTYPE, samples.size)
        pcm = np.add(samples, 0.0, dtype=_DTYPE, order="C").view(np.uint8).data
        key = self._key(tenant)
        if self._algorithm == "blake3":
            return blake3(header, key=key).update(pcm).hexdigest()
        mac = hmac.new(key, header, "sha256")
        mac.update(pcm)
        return mac.hexdigest()

    def _key(self, tenant: TenantId | None) -> bytes:
        if self._algorithm == "hmac-sha256":
            return hmac.digest(self._secret, encode("fingerprint", tenant), "sha256")
        secret = blake2b(self._secret, digest_size=32, person=b"fingerprint").digest()
        return blake2b(encode(tenant), digest_size=32, key=secret, person=b"fingerprint").digest()
