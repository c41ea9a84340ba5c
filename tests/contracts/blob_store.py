"""What every `ports.BlobStore` promises; a test module per adapter gives fixtures and says how time passes."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamscribe.cache.blobs import Seal
from streamscribe.core.cachekey import CacheKeys
from streamscribe.core.ids import TenantId
from streamscribe.ports import Blob, BlobStore, Verified

SECRET = b"0123456789abcdef"
KEYS = CacheKeys(SECRET)
SEAL = Seal(SECRET)
ANN, BOB = KEYS.owner(TenantId("ann")), KEYS.owner(TenantId("bob"))

MAX_BYTES = 64 * 1024
"""Of each store under test, where it has a bound of its own."""


def key(name, tenant="ann"):
    return KEYS.derive(TenantId(tenant), "test", name)


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def data_of(store: BlobStore, of: str) -> bytes | None:
    blob = store.get(key(of))
    return None if blob is None else blob.data


class BlobStoreContract:
    """Fixture to give: `store`. Method: `pass_time`."""

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    @pytest.mark.parametrize("data", [b"", b"\x00", bytes(range(256)) * 80])
    def test_a_blob_is_got_as_it_was_put_with_its_owner_and_the_time_left(self, store, data):
        assert store.put(ANN, key("a"), data, 60)
        blob = store.get(key("a"))
        assert (blob.data, blob.owner) == (data, ANN)
        assert 0 < blob.ttl_s <= 60

    def test_what_was_never_put_is_a_miss(self, store):
        store.put(ANN, key("a"), b"1", 60)
        assert store.get(key("b")) is None

    def test_what_is_put_again_takes_the_place_of_what_was_there(self, store):
        store.put(ANN, key("a"), b"1", 60)
        store.put(ANN, key("a"), b"22", 60)
        assert data_of(store, "a") == b"22"
        assert store.usage().entries == 1

    def test_a_blob_ends_with_its_time(self, store):
        store.put(ANN, key("short"), b"1", 0.2)
        store.put(ANN, key("long"), b"2", 60)
        self.pass_time(0.3)
        assert data_of(store, "short") is None
        assert data_of(store, "long") == b"2"
        assert store.usage().entries == 1

    def test_what_is_put_again_has_its_new_time(self, store):
        store.put(ANN, key("a"), b"1", 0.2)
        store.put(ANN, key("a"), b"1", 60)
        self.pass_time(0.3)
        assert data_of(store, "a") == b"1"

    def test_what_has_no_time_is_not_kept(self, store):
        assert not store.put(ANN, key("a"), b"1", 0)
        assert data_of(store, "a") is None

    def test_a_removed_blob_is_gone(self, store):
        store.put(ANN, key("a"), b"1", 60)
        assert store.remove(key("a"))
        assert not store.remove(key("a"))
        assert data_of(store, "a") is None

    def test_law_9_a_purge_takes_all_of_an_owner_and_nothing_of_others(self, store):
        for name in "abc":
            store.put(ANN, key(name), b"ann's", 60)
        store.put(BOB, key("a", "bob"), b"bob's", 60)
        assert store.purge(ANN) == 3
        assert [data_of(store, name) for name in "abc"] == [None, None, None]
        assert store.get(key("a", "bob")).data == b"bob's"
        assert store.purge(ANN) == 0

    def test_a_purge_of_everyone_leaves_nothing(self, store):
        store.put(ANN, key("a"), b"1", 60)
        store.put(BOB, key("a", "bob"), b"1", 60)
        assert store.purge() == 2
        assert store.usage().entries == 0
        assert store.usage().size_bytes == 0

    def test_what_it_holds_is_told(self, store):
        assert (store.usage().entries, store.usage().size_bytes) == (0, 0)
        for name in "abc":
            store.put(ANN, key(name), bytes(1000), 60)
        usage = store.usage()
        assert usage.entries == 3
        assert usage.size_bytes >= 3000
        assert (usage.damaged, usage.failures, usage.available) == (0, 0, True)

    def test_whole_blobs_verify(self, store):
        for name in "abc":
            store.put(ANN, key(name), b"1", 60)
        assert store.verify() == Verified(checked=3, damaged=0)

    def test_law_9_random_use_by_two_tenants_from_8_threads_gives_everyone_only_its_own(self, store):
        def work(seed):
            random_, hits = random.Random(seed), 0
            for _ in range(150):
                tenant, name = random_.choice(["ann", "bob"]), random_.randrange(20)
                mine = key(name, tenant)
                expected = f"{tenant} {name}".encode() * 20
                match random_.randrange(10):
                    case 0:
                        store.remove(mine)
                    case 1 | 2 | 3:
                        store.put(KEYS.owner(TenantId(tenant)), mine, expected, 60)
                    case _:
                        blob = store.get(mine)
                        hits += blob is not None
                        assert blob is None or (blob.data, blob.owner) == (expected, KEYS.owner(TenantId(tenant)))
            return hits

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(work, range(8))) > 0
        assert store.usage().failures == 0


class BoundedBlobStoreContract(BlobStoreContract):
    """Of a store with a bound of its own: `MAX_BYTES`, and half of it for one owner."""

    def test_law_7_its_bytes_are_bounded_and_the_least_recently_used_go(self, store):
        for number in range(200):
            store.put(ANN if number % 2 else BOB, key(number), bytes(1000), 60)
            assert store.get(key(0)) is not None
            assert store.usage().size_bytes <= MAX_BYTES
        assert store.get(key(1)) is None
        assert store.get(key(199)) is not None
        assert store.usage().entries > 40

    def test_an_owner_has_its_share_and_makes_room_for_itself(self, store):
        store.put(BOB, key("bobs", "bob"), b"1", 60)
        for number in range(200):
            store.put(ANN, key(number), bytes(1000), 60)
        assert store.get(key("bobs", "bob")) is not None
        assert store.usage().size_bytes <= MAX_BYTES // 2 + 200

    def test_a_sweep_takes_what_has_ended_and_nothing_else(self, store):
        for number in range(4):
            store.put(ANN, key(number), bytes(1000), 60 + number % 2)
        self.pass_time(60.5)
        store.sweep()
        store.check_integrity()
        assert [store.get(key(number)) is not None for number in range(4)] == [False, True, False, True]

    def test_what_is_larger_than_an_owners_share_is_not_kept(self, store):
        store.put(ANN, key("a"), b"1", 60)
        assert not store.put(ANN, key("b"), bytes(MAX_BYTES // 2 + 1), 60)
        assert data_of(store, "a") == b"1"


class SealedBlobStoreContract(BlobStoreContract):
    """Of a store that outlives the process. Methods: `reopen`, `stored`, `overwrite`."""

    def reopen(self, seal: Seal = SEAL) -> BlobStore:
        raise NotImplementedError

    def stored(self) -> dict[str, bytes]:
        """All that lies in the storage, by its name there."""
        raise NotImplementedError

    def overwrite(self, name: str, data: bytes) -> None:
        raise NotImplementedError

    def test_blobs_survive_a_restart_with_owner_and_time(self, store):
        store.put(ANN, key("a"), b"1", 60)
        store.put(BOB, key("b"), b"2", 0.2)
        self.pass_time(0.3)
        again = self.reopen()
        blob = again.get(key("a"))
        assert isinstance(blob, Blob)
        assert (blob.data, blob.owner) == (b"1", ANN)
        assert 0 < blob.ttl_s < 60
        assert again.get(key("b")) is None
        assert again.purge(ANN) == 1
        assert data_of(again, "a") is None
        again.close()

    @pytest.mark.parametrize(
        "damage",
        [
            lambda stored: stored[:-1],
            lambda stored: stored[:10],
            lambda stored: b"",
            lambda stored: stored + b"\0",
            lambda stored: stored[:60] + bytes([stored[60] ^ 1]) + stored[61:],
            lambda stored: stored[:36] + (2**50).to_bytes(8, "big") + stored[44:],
            lambda stored: stored[:4] + bytes(32) + stored[36:],
        ],
        ids=["cut", "cut in its head", "empty", "longer", "other data", "kept for longer", "another owner"],
    )
    def test_a_damaged_blob_is_a_miss_removed_and_counted(self, store, damage):
        for name in "ab":
            store.put(ANN, key(name), bytes(100), 60)
        for name, stored in self.stored().items():
            self.overwrite(name, damage(stored))
        assert data_of(store, "a") is None
        assert store.verify() == Verified(checked=1, damaged=1)
        assert store.usage().damaged == 2
        assert self.stored() == {}

    def test_a_blob_moved_to_another_key_is_damaged(self, store):
        for name in "ab":
            store.put(ANN, key(name), name.encode(), 60)
        (one, stored), (other, _) = self.stored().items()
        self.overwrite(other, stored)
        assert sorted(str(data_of(store, name)) for name in "ab").count("None") == 1
        assert store.usage().damaged == 1
        assert list(self.stored()) == [one]

    def test_blobs_of_another_secret_are_misses(self, store):
        store.put(ANN, key("a"), b"1", 60)
        other = self.reopen(Seal(b"another secret of it"))
        assert other.get(key("a")) is None
        other.close()

    def test_law_9_no_tenant_is_named_in_the_storage(self, store):
        owner = KEYS.owner(TenantId("acme-telephone"))
        store.put(owner, key("a", "acme-telephone"), b"1", 60)
        ((name, stored),) = self.stored().items()
        assert b"acme" not in name.encode() + stored


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
