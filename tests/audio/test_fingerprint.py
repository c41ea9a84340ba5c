"""Law 9: a fingerprint is the samples' and the tenant's own."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import TenantId

SECRET = b"0123456789abcdef"
ANN, BOB = TenantId("ann"), TenantId("bob")
CLIP = np.linspace(-1, 1, 16_000, dtype=np.float32)

XXH3_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee0"
    "3590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51"
    "e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8"
    "d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


@pytest.fixture(params=["blake3", "hmac-sha256"])
def fingerprints(request):
    return Fingerprints(SECRET, request.param)


def clips_of_equal_xxh3():
    """Two clips of ten seconds in [-1, 1] that differ in a quarter of their samples and have one xxh3-128.

    A sample that equals its word of the public secret zeroes the product of its lane; then the lane's other sample
    only adds, and two such samples of a block can change places.
    """
    samples = 160_000
    one = (np.random.RandomState(0).randn(samples) * 0.1).clip(-1, 1).astype(np.float32).view(np.uint32).copy()
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for stripe in range(16):
        for lane in range(8):
            for half in (0, 1):
                at = 8 * stripe + 8 * lane + 4 * half
                (value,) = struct.unpack_from("<f", XXH3_SECRET, at)
                if value == value and 1e-30 < abs(value) <= 1.0:
                    (word,) = struct.unpack_from("<I", XXH3_SECRET, at)
                    lanes.setdefault((lane, half), []).append((stripe * 16 + lane * 2 + half, word))
                    break
    for block in range(0, samples - 256, 256):
        for pinned in lanes.values():
            for at, word in pinned:
                one[block + at] = word
    other = one.copy()
    for block in range(0, samples - 256, 256):
        for (_, half), pinned in lanes.items():
            free = [block + at + (-1 if half else 1) for at, _ in pinned]
            for left, right in zip(free[::2], free[1::2], strict=False):
                other[left], other[right] = one[right], one[left]
    return one.view(np.float32), other.view(np.float32)


def test_two_clips_that_a_fast_hash_takes_for_one_have_two_fingerprints(fingerprints):
    one, other = clips_of_equal_xxh3()
    assert max(abs(one).max(), abs(other).max()) <= 1
    assert np.count_nonzero(one != other) > 30_000
    assert fingerprints.of(ANN, one) != fingerprints.of(ANN, other)


def test_equal_samples_have_equal_fingerprints_however_they_lie_in_memory(fingerprints):
    apart = np.zeros(2 * CLIP.size, np.float32)[::2]
    apart[:] = CLIP
    expected = fingerprints.of(ANN, CLIP)
    assert fingerprints.of(ANN, apart) == expected
    assert fingerprints.of(ANN, CLIP.astype(">f4")) == expected
    assert len(expected) == 64
    assert int(expected, 16)


def test_law_9_tenants_and_servers_have_nothing_in_common(fingerprints):
    everyone = {fingerprints.of(tenant, CLIP) for tenant in (ANN, BOB, None)}
    assert len(everyone) == 3
    assert Fingerprints(b"another secret of it").of(ANN, CLIP) not in everyone


def test_the_two_algorithms_have_nothing_in_common():
    assert Fingerprints(SECRET, "blake3").of(ANN, CLIP) != Fingerprints(SECRET, "hmac-sha256").of(ANN, CLIP)


@given(st.integers(0, CLIP.size - 1), st.floats(-1, 1, width=32))
def test_every_sample_counts(index, value):
    changed = CLIP.copy()
    changed[index] = value
    fingerprints = Fingerprints(SECRET)
    same = bool((changed == CLIP).all())
    assert (fingerprints.of(ANN, changed) == fingerprints.of(ANN, CLIP)) == same


def test_longer_audio_has_another_fingerprint_though_it_adds_only_silence(fingerprints):
    lengths = {fingerprints.of(ANN, np.zeros(length, np.float32)) for length in range(10)}
    assert len(lengths) == 10


def test_both_zeros_are_one_and_the_samples_stay_as_they_were(fingerprints):
    clip = np.array([0.0, -0.0, 0.5], np.float32)
    assert fingerprints.of(ANN, clip) == fingerprints.of(ANN, np.array([-0.0, 0.0, 0.5], np.float32))
    assert np.signbit(clip).tolist() == [False, True, False]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_no_number_is_refused(fingerprints, value):
    clip = CLIP.copy()
    clip[7] = value
    with pytest.raises(BadRequest, match="finite"):
        fingerprints.of(ANN, clip)


def test_a_short_secret_and_audio_of_two_channels_are_refused(fingerprints):
    with pytest.raises(ValueError, match="16 bytes"):
        Fingerprints(b"short")
    with pytest.raises(ValueError, match="one channel"):
        fingerprints.of(ANN, CLIP.reshape(2, -1))
