"""The forms in which cached things outlive memory: an array with a typed header, and a seal around any blob.

Nothing is ever unpickled. A seal says whose the blob is and until when it may be kept, and a MAC (keyed BLAKE3) holds
both, the data and the key it was put for together: what was changed, cut, or moved to another key does not open.
"""

import hmac
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from streamscribe.core.cachekey import MIN_SECRET_BYTES, CacheKey, Owner, encode

_SEAL_MAGIC = b"SSC1"
_SEAL = struct.Struct(">4s32sQ")
_MAC_BYTES = 32

SEAL_HEADER_BYTES = _SEAL.size
SEAL_BYTES = _SEAL.size + _MAC_BYTES
"""What a seal adds to a blob's size."""

_ARRAY_MAGIC = b"SSA1"
_ARRAY = struct.Struct(">4s16s4sB")
_DIMENSION = struct.Struct(">I")
_DTYPES = frozenset({"<f4", "<f2", "<i4", "|u1"})
_MAX_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a seal held: data, owner, and the wall-clock time in milliseconds until which it may be kept."""

    data: bytes
    owner: Owner
    expires_ms: int


class Seal:
    """Closes and opens the blobs of the servers that have one secret; raises ValueError for one that is too short."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"the cache secret must have at least {MIN_SECRET_BYTES} bytes")
        self._key = blake3(secret, derive_key_context="streamscribe cache seal 1").digest()

    def close(self, key: CacheKey, sealed: Sealed) -> bytes:
        """The blob as it is stored for `key`."""
        header = _SEAL.pack(_SEAL_MAGIC, bytes.fromhex(sealed.owner), sealed.expires_ms)
        return b"".join((header, sealed.data, self._mac(key, header, sealed.data)))

    def open(self, key: CacheKey, stored: bytes) -> Sealed | None:
        """What was closed for `key` with this secret; None for anything else."""
        if len(stored) < SEAL_BYTES:
            return None
        header, data, mac = stored[: _SEAL.size], stored[_SEAL.size : -_MAC_BYTES], stored[-_MAC_BYTES:]
        told = self.peek(header)
        if told is None or not hmac.compare_digest(self._mac(key, header, data), mac):
            return None
        return Sealed(data, *told)

    @staticmethod
    def peek(header: bytes) -> tuple[Owner, int] | None:
        """Owner and `expires_ms` as the first `SEAL_HEADER_BYTES` tell them, unverified; None if they are no header."""
        if len(header) < _SEAL.size:
            return None
        magic, owner, expires_ms = _SEAL.unpack_from(header)
        return (Owner(owner.hex()), expires_ms) if magic == _SEAL_MAGIC else None

    def _mac(self, key: CacheKey, header: bytes, data: bytes) -> bytes:
        return blake3(encode(key), key=self._key).update(header).update(data).digest()


def pack(kind: str, array: npt.NDArray[Any]) -> bytes:
    """The array as bytes that say of which `kind` it is (at most 16 letters), its dtype and its shape.

    Raises ValueError for an array that no cache keeps: of another dtype than float32, float16, int32 and uint8, or of
    more than four dimensions.
    """
    dtype = array.dtype.newbyteorder("<").str
    name = kind.encode("ascii")
    if dtype not in _DTYPES or array.ndim > _MAX_DIMENSIONS or len(name) > 16:
        raise ValueError(f"{kind}: an array of {array.dtype} with {array.ndim} dimensions cannot be packed")
    header = _ARRAY.pack(_ARRAY_MAGIC, name, dtype.encode(), array.ndim)
    shape = b"".join(_DIMENSION.pack(size) for size in array.shape)
    return b"".join((header, shape, np.ascontiguousarray(array, dtype).tobytes()))


def unpack(kind: str, data: bytes) -> npt.NDArray[Any] | None:
    """The array, which cannot be written to; None for what is not exactly one packed array of this kind."""
    if len(data) < _ARRAY.size:
        return None
    magic, name, dtype, dimensions = _ARRAY.unpack_from(data)
    start = _ARRAY.size + dimensions * _DIMENSION.size
    known = (
        magic == _ARRAY_MAGIC
        and name.rstrip(b"\0") == kind.encode("ascii")
        and dtype.rstrip(b"\0").decode("ascii", "replace") in _DTYPES
    )
    if not known or dimensions > _MAX_DIMENSIONS or len(data) < start:
        return None
    shape = tuple(size for (size,) in _DIMENSION.iter_unpack(data[_ARRAY.size : start]))
    kept_as = np.dtype(dtype.rstrip(b"\0").decode())
    if len(data) - start != math.prod(shape) * kept_as.itemsize:
        return None
    return np.frombuffer(data, kept_as, offset=start).reshape(shape)
