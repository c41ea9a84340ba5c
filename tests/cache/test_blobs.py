"""What is kept outside memory opens as it was closed, or not at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from streamscribe.cache.blobs import SEAL_BYTES, SEAL_HEADER_BYTES, Seal, Sealed, pack, unpack
from streamscribe.core.cachekey import CacheKey, Owner

SEAL = Seal(b"0123456789abcdef")
KEY, OTHER = CacheKey("ab" * 32), CacheKey("cd" * 32)
OWNER = Owner("ef" * 32)

kept = arrays.arrays(
    st.sampled_from([np.float32, np.float16, np.int32, np.uint8]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0),
)


@given(kept)
def test_an_array_is_unpacked_as_it_was_packed_and_cannot_be_written_to(array):
    got = unpack("fbank", pack("fbank", array))
    assert got is not None
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tobytes() == array.tobytes()
    assert not got.flags.writeable


@given(st.binary(max_size=200))
def test_what_is_no_packed_array_unpacks_to_nothing(data):
    assert unpack("fbank", data) is None


@given(kept, st.data())
def test_a_packed_array_that_was_cut_or_is_of_another_kind_unpacks_to_nothing(array, data):
    packed = pack("fbank", array)
    assert unpack("fbank", packed[: data.draw(st.integers(0, len(packed) - 1))]) is None
    assert unpack("fbank", packed + b"\0") is None
    assert unpack("encoder", packed) is None


def test_any_change_of_the_header_unpacks_to_nothing_or_to_an_array_of_the_same_size():
    packed = pack("fbank", np.zeros((3, 5), np.float32))
    for at in range(33):
        for value in range(256):
            got = unpack("fbank", packed[:at] + bytes([value]) + packed[at + 1 :])
            assert got is None or got.nbytes == 60


def test_other_memory_layouts_are_packed_by_their_values():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert pack("fbank", array.T) == pack("fbank", np.ascontiguousarray(array.T))
    assert pack("fbank", array.astype(">f4")) == pack("fbank", array)


@pytest.mark.parametrize(
    ("kind", "array"),
    [("fbank", np.zeros(1)), ("fbank", np.array([None])), ("a" * 17, np.zeros(1, np.float32))],
)
def test_what_no_cache_keeps_is_refused(kind, array):
    with pytest.raises(ValueError, match="cannot be packed"):
        pack(kind, array)


@given(st.binary(max_size=100), st.integers(0, 2**63))
def test_a_seal_opens_for_its_key_and_secret_only(data, expires_ms):
    sealed = Sealed(data, OWNER, expires_ms)
    stored = SEAL.close(KEY, sealed)
    assert len(stored) == len(data) + SEAL_BYTES
    assert SEAL.open(KEY, stored) == sealed
    assert SEAL.peek(stored[:SEAL_HEADER_BYTES]) == (OWNER, expires_ms)
    assert SEAL.open(OTHER, stored) is None
    assert Seal(b"another secret of it").open(KEY, stored) is None


@given(st.binary(max_size=100), st.data())
def test_a_seal_does_not_open_when_any_bit_was_changed(data, draw):
    stored = bytearray(SEAL.close(KEY, Sealed(data, OWNER, 1)))
    bit = draw.draw(st.integers(0, 8 * len(stored) - 1))
    stored[bit // 8] ^= 1 << bit % 8
    assert SEAL.open(KEY, bytes(stored)) is None


@given(st.binary(max_size=200))
def test_what_was_never_sealed_does_not_open(stored):
    assert SEAL.open(KEY, stored) is None


def test_a_short_secret_is_refused():
    with pytest.raises(ValueError, match="16 bytes"):
        Seal(b"short")
