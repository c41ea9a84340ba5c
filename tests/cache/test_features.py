"""Rows of front ends come back as they were, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from streamscribe.cache.blobs import Seal, pack
from streamscribe.cache.disk import DiskBlobs
from streamscribe.cache.features import KIND, Features
from streamscribe.cache.tiers import TieredBlobs
from streamscribe.ports import BlobStore
from tests.cache.kit import ACME, KEYS, OTHER, SECRET, memory

KEY = KEYS.derive(ACME, "features", "fingerprint", "front end")
ROWS = np.random.default_rng(0).normal(size=(98, 80)).astype(np.float32)


def disk(folder: Path) -> DiskBlobs:
    return DiskBlobs(folder, Seal(SECRET), max_bytes=2**20)


@pytest.fixture(params=["memory", "disk", "both"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    stores: dict[str, BlobStore] = {
        "memory": memory(),
        "disk": disk(tmp_path),
        "both": TieredBlobs([memory(), disk(tmp_path)]),
    }
    return stores[request.param]


def test_rows_come_back_bit_for_bit_and_cannot_be_written_to(blobs: BlobStore) -> None:
    features = Features(blobs, KEYS, ttl_s=100)
    assert features.get(KEY) is None
    features.put(ACME, KEY, ROWS)
    rows = features.get(KEY)
    assert rows is not None
    assert rows.dtype == np.float32
    assert rows.tobytes() == ROWS.tobytes()
    assert rows.shape == ROWS.shape
    assert not rows.flags.writeable


def test_rows_survive_a_restart_on_disk(tmp_path: Path) -> None:
    Features(disk(tmp_path), KEYS, ttl_s=100).put(ACME, KEY, ROWS)
    rows = Features(disk(tmp_path), KEYS, ttl_s=100).get(KEY)
    assert rows is not None
    assert rows.tobytes() == ROWS.tobytes()


@pytest.mark.parametrize(
    "data",
    [b"", b"no array", pack("other", ROWS), pack(KIND, ROWS[0]), pack(KIND, ROWS.astype(np.float16))],
    ids=["empty", "no array", "other kind", "one dimension", "other dtype"],
)
def test_what_reads_as_no_rows_is_a_miss_and_removed(data: bytes, blobs: BlobStore) -> None:
    blobs.put(KEYS.owner(ACME), KEY, data, 100)
    assert Features(blobs, KEYS, ttl_s=100).get(KEY) is None
    assert blobs.get(KEY) is None


def test_a_changed_file_is_a_miss(tmp_path: Path) -> None:
    features = Features(disk(tmp_path), KEYS, ttl_s=100)
    features.put(ACME, KEY, ROWS)
    file = tmp_path / KEY
    data = bytearray(file.read_bytes())
    data[-40] ^= 1
    file.write_bytes(data)
    assert features.get(KEY) is None
    assert not file.exists()


def test_a_tenants_purge_takes_its_rows_and_no_others(blobs: BlobStore) -> None:
    features = Features(blobs, KEYS, ttl_s=100)
    other = KEYS.derive(OTHER, "features", "fingerprint", "front end")
    features.put(ACME, KEY, ROWS)
    features.put(OTHER, other, ROWS)
    assert blobs.purge(KEYS.owner(ACME)) == 1
    assert features.get(KEY) is None
    assert features.get(other) is not None
