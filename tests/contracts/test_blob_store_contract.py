"""Memory, disk, Redis and tiers of them against the contract, and what each promises besides."""

import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from streamscribe.cache.blobs import Seal
from streamscribe.cache.disk import DiskBlobs
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.redis import RedisBlobs
from streamscribe.cache.tiers import TieredBlobs
from streamscribe.core.errors import CacheUnavailable
from streamscribe.ports import Usage, Verified
from tests.contracts.blob_store import (
    ANN,
    BOB,
    MAX_BYTES,
    SEAL,
    BlobStoreContract,
    BoundedBlobStoreContract,
    Clock,
    SealedBlobStoreContract,
    data_of,
    files_of,
    key,
)
from tests.contracts.redis_server import free_port, redis_server


class TestMemoryBlobs(BoundedBlobStoreContract):
    @pytest.fixture
    def store(self):
        self.clock = Clock()
        store = MemoryBlobs(max_bytes=MAX_BYTES, owner_share=0.5, clock=self.clock)
        yield store
        store.check_integrity()

    def pass_time(self, seconds):
        self.clock.now += seconds

    def test_ended_blobs_give_their_memory_back_though_nobody_asks_for_them(self, store):
        for number in range(10):
            store.put(ANN, key(number), bytes(100), 1)
        self.pass_time(2)
        store.put(ANN, key("new"), b"1", 60)
        store.check_integrity()
        assert store.usage() == Usage(1, 1)


class TestDiskBlobs(BoundedBlobStoreContract, SealedBlobStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        self.clock = Clock()
        self.folder = tmp_path / "blobs"
        store = self.reopen()
        yield store
        store.verify()
        store.check_integrity()

    def pass_time(self, seconds):
        self.clock.now += seconds

    def reopen(self, seal: Seal = SEAL):
        return DiskBlobs(self.folder, seal, max_bytes=MAX_BYTES, owner_share=0.5, clock=self.clock)

    def stored(self):
        return files_of(self.folder)

    def overwrite(self, name, data):
        (self.folder / name).write_bytes(data)

    def test_only_its_owner_may_read_a_file(self, store):
        store.put(ANN, key("a"), b"1", 60)
        (file,) = self.folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(self.folder.stat().st_mode) == 0o700

    def test_after_a_restart_what_was_used_longest_ago_goes_first(self, store):
        for name in "abc":
            store.put(ANN, key(name), bytes(10_000), 600)
            self.pass_time(1)
        store.get(key("a"))
        again = self.reopen()
        again.put(ANN, key("d"), bytes(10_000), 600)
        assert [name for name in "abcd" if again.get(key(name)) is not None] == ["a", "c", "d"]
        again.purge()

    def test_a_folder_over_a_smaller_bound_is_brought_under_it(self, store):
        for name in range(6):
            store.put(BOB if name % 2 else ANN, key(name), bytes(10_000), 600)
        smaller = DiskBlobs(self.folder, SEAL, max_bytes=25_000, clock=self.clock)
        smaller.check_integrity()
        assert smaller.usage().entries == 2
        store.purge()

    def test_what_another_process_purged_is_a_miss_and_gives_its_place(self, store):
        store.put(ANN, key("a"), bytes(1000), 60)
        assert self.reopen().purge() == 1
        assert store.get(key("a")) is None
        assert store.usage() == Usage(0, 0)

    def test_law_9_what_has_ended_is_off_the_disk_after_a_sweep_though_nobody_asks(self, store):
        store.put(ANN, key("a"), bytes(1000), 60)
        store.put(ANN, key("b"), bytes(1000), 120)
        self.pass_time(61)
        assert len(self.stored()) == 2
        store.sweep()
        assert len(self.stored()) == 1

    def test_files_of_others_are_left_alone_and_unfinished_ones_are_not(self, store):
        others = ["README", "new-abcdefgh", "new-report.docx", "notes.txt"]
        for name in others:
            (self.folder / name).write_text("mine")
        (self.folder / f"new-{key('a')}-abcdefgh").write_bytes(b"half")
        (self.folder / "new-folder").mkdir()
        (self.folder / key("b")).symlink_to(self.folder / "notes.txt")
        os.mkfifo(self.folder / key("c"))
        self.reopen()
        for path in (self.folder / key("b"), self.folder / key("c")):
            path.unlink()
        (self.folder / "new-folder").rmdir()
        assert sorted(self.stored()) == others

    def test_a_disk_that_takes_nothing_keeps_nothing_and_is_counted(self, store):
        store.put(ANN, key("a"), b"1", 60)
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()
        assert not store.put(ANN, key("b"), b"1", 60)
        assert store.usage().failures == 1
        assert store.get(key("a")) is None
        self.folder.mkdir()

    def test_a_file_that_cannot_be_deleted_is_told_to_who_purges(self, store):
        store.put(ANN, key("a"), b"1", 60)
        (file,) = self.folder.iterdir()
        file.unlink()
        file.mkdir()
        with pytest.raises(CacheUnavailable):
            store.purge(ANN)
        assert store.get(key("a")) is None
        assert store.usage().failures == 2
        file.rmdir()

    def test_a_file_that_cannot_be_deleted_keeps_no_other_from_being_purged(self, store):
        for name in "abc":
            store.put(ANN, key(name), b"1", 60)
            self.pass_time(1)
        (self.folder / key("a")).unlink()
        (self.folder / key("a")).mkdir()
        with pytest.raises(CacheUnavailable):
            store.purge(ANN)
        assert [path.name for path in self.folder.iterdir() if path.is_file()] == []
        assert [data_of(store, name) for name in "abc"] == [None] * 3
        (self.folder / key("a")).rmdir()

    @pytest.mark.parametrize("strange", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
    def test_what_is_no_file_in_place_of_a_blob_is_a_miss_that_nobody_waits_for(self, store, strange):
        store.put(ANN, key("a"), b"1", 60)
        (self.folder / key("a")).unlink()
        strange(self.folder / key("a"))
        assert store.get(key("a")) is None
        assert store.usage().failures == 1
        with pytest.raises(CacheUnavailable):
            store.verify()
        assert store.put(ANN, key("a"), b"2", 60)
        assert data_of(store, "a") == b"2"

    @pytest.mark.parametrize("damage", [lambda stored: b"", lambda stored: b"X" + stored[1:]], ids=["empty", "no seal"])
    def test_what_is_no_blob_of_anybody_is_found_by_who_opens_the_folder_to_verify_it(self, store, damage):
        for name in "ab":
            store.put(ANN, key(name), b"1", 60)
        self.overwrite(key("a"), damage(self.stored()[key("a")]))
        again = self.reopen()
        assert again.verify() == Verified(checked=2, damaged=1)
        assert again.verify() == Verified(checked=1, damaged=0)
        assert list(self.stored()) == [key("b")]

    @pytest.mark.parametrize(("most_s", "set_back_s"), [(60, 0), (600, 1000)], ids=["shorter time", "clock set back"])
    def test_after_a_restart_nothing_is_kept_for_longer_than_is_allowed_from_then_on(self, store, most_s, set_back_s):
        store.put(ANN, key("long"), b"1", 600)
        self.pass_time(-set_back_s)
        store.put(ANN, key("short"), b"2", 50)
        again = DiskBlobs(self.folder, SEAL, max_bytes=MAX_BYTES, max_ttl_s=most_s, clock=self.clock)
        assert [data_of(again, name) for name in ("long", "short")] == [None, b"2"]
        assert list(self.stored()) == [key("short")]

    def test_a_key_that_would_be_a_path_is_refused(self, store):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            store.put(ANN, "../" + "a" * 61, b"1", 60)

    def test_a_writer_killed_at_any_moment_leaves_whole_blobs_and_exact_books(self, store):
        script = (
            "import sys; from pathlib import Path; from tests.contracts.blob_store import ANN, SEAL, MAX_BYTES, key\n"
            "from streamscribe.cache.disk import DiskBlobs\n"
            "store = DiskBlobs(Path(sys.argv[1]), SEAL, max_bytes=MAX_BYTES)\n"
            "for n in range(10**9):\n"
            "    store.put(ANN, key(n % 30), bytes([n % 30]) * (n % 30 * 300), 3600)\n"
            "    if n == 0: print('go', flush=True)\n"
        )
        for round_ in range(3):
            child = subprocess.Popen([sys.executable, "-c", script, str(self.folder)], stdout=subprocess.PIPE)
            assert child.stdout is not None
            assert child.stdout.readline() == b"go\n"
            time.sleep(0.03 + 0.017 * round_)
            child.kill()
            child.wait()
            child.stdout.close()
            again = DiskBlobs(self.folder, SEAL, max_bytes=MAX_BYTES)
            again.check_integrity()
            assert again.usage().entries > 0
            assert again.verify().damaged == 0
            for n in range(30):
                blob = again.get(key(n))
                assert blob is None or blob.data == bytes([n]) * (n * 300)
            assert not [name for name in self.stored() if name.startswith("new-")]
        again.purge()


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


class TestRedisBlobs(SealedBlobStoreContract):
    @pytest.fixture
    def store(self, redis_url):
        self.url = redis_url
        self.client = redis.Redis.from_url(redis_url)
        self.client.flushall()
        self.client.set("somebody else's", "1")
        store = self.reopen()
        yield store
        assert self.client.get("somebody else's") == b"1"
        store.close()
        self.client.close()

    def pass_time(self, seconds):
        time.sleep(seconds)

    def reopen(self, seal: Seal = SEAL):
        return RedisBlobs(self.url, seal, timeout_s=20)

    def stored(self):
        return {name.decode(): self.client.get(name) for name in sorted(self.client.keys("streamscribe:cache:*"))}

    def overwrite(self, name, data):
        self.client.set(name, data)

    def test_two_servers_share_what_they_put(self, store):
        other = self.reopen()
        store.put(ANN, key("a"), b"1", 60)
        assert data_of(other, "a") == b"1"
        assert other.purge(ANN) == 1
        assert data_of(store, "a") is None
        other.close()

    def test_a_thousand_blobs_are_counted_and_purged(self, store):
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda n: store.put(BOB if n % 2 else ANN, key(n), b"1", 60), range(1200)))
        assert store.usage().entries == 1200
        assert store.purge(BOB) == 600
        assert store.verify() == Verified(600, 0)

    def test_what_is_no_blob_under_our_names_keeps_nobody_from_usage_purge_and_verify(self, store):
        for name in (b"streamscribe:cache:" + key("list").encode(), b"streamscribe:cache:\xff\xfe"):
            self.client.rpush(name, "1")
        self.client.set(b"streamscribe:cache:\xff", b"garbage")
        self.client.set(b"streamscribe:cache:", b"")
        store.put(ANN, key("a"), b"1", 60)
        store.put(BOB, key("b"), b"1", 60)
        assert store.get(key("list")) is None
        assert store.usage().available
        assert store.purge(ANN) == 1
        assert store.verify() == Verified(5, 4)
        assert data_of(store, "b") == b"1"
        assert store.usage().entries == 1


def test_a_redis_that_refuses_to_write_keeps_nothing_and_is_counted(tmp_path):
    with redis_server(tmp_path, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction") as url:
        store = RedisBlobs(url, SEAL, timeout_s=20)
        assert not store.put(ANN, key("a"), bytes(2**20), 60)
        assert store.get(key("a")) is None
        assert store.usage() == Usage(0, 0, failures=1)
        store.close()


def test_a_redis_that_cannot_be_reached_is_misses_counted_and_asked_again_after_a_while():
    clock, wall = Clock(), Clock()
    port = free_port()
    store = RedisBlobs(f"redis://127.0.0.1:{port}/0", SEAL, hold_off_s=1, clock=wall, monotonic=clock)
    assert not store.put(ANN, key("a"), b"1", 60)
    assert store.get(key("a")) is None
    for ask in (store.purge, store.verify, lambda: store.remove(key("a"))):
        with pytest.raises(CacheUnavailable):
            ask()
    assert store.usage() == Usage(0, 0, failures=6, available=False)
    wall.now -= 3600  # a clock that is set back
    clock.now += 2
    assert store.get(key("a")) is None
    assert store.usage().failures == 8
    store.close()


def test_a_redis_that_comes_back_is_used_again(tmp_path):
    clock = Clock()
    with redis_server(tmp_path) as url:
        store = RedisBlobs(url, SEAL, timeout_s=20, hold_off_s=5, monotonic=clock)
        assert store.put(ANN, key("a"), b"1", 60)
    assert store.get(key("a")) is None
    port = int(url.rpartition(":")[2].partition("/")[0])
    with redis_server(tmp_path, port=port):
        assert not store.put(ANN, key("a"), b"1", 60)
        clock.now += 6
        assert store.put(ANN, key("a"), b"1", 60)
        assert data_of(store, "a") == b"1"
        store.close()


class TestTieredBlobs(BlobStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        self.clock = Clock()
        bounds = {"max_bytes": MAX_BYTES, "owner_share": 0.5, "clock": self.clock}
        self.near = MemoryBlobs(**bounds)
        self.far = DiskBlobs(tmp_path, SEAL, **bounds)
        store = TieredBlobs([self.near, self.far])
        yield store
        self.near.check_integrity()
        self.far.check_integrity()

    def pass_time(self, seconds):
        self.clock.now += seconds

    def test_what_is_found_far_away_is_brought_nearer_with_owner_and_time(self, store):
        self.far.put(ANN, key("a"), b"1", 60)
        self.pass_time(20)
        assert data_of(store, "a") == b"1"
        near = self.near.get(key("a"))
        assert near is not None
        assert (near.data, near.owner) == (b"1", ANN)
        assert 0 < near.ttl_s <= 40
        assert store.purge(ANN) == 1
        assert data_of(store, "a") is None

    def test_what_was_purged_while_it_was_read_is_not_brought_nearer(self, store):
        class PurgedWhenRead(MemoryBlobs):
            """Somebody purges just when the blob was read."""

            def get(self, key):
                blob = super().get(key)
                purging.purge()
                return blob

        far = PurgedWhenRead(max_bytes=MAX_BYTES, clock=self.clock)
        purging = TieredBlobs([self.near, far])
        far.put(ANN, key("a"), b"1", 60)
        assert data_of(purging, "a") == b"1"
        assert self.near.get(key("a")) is None

    def test_what_is_read_far_away_while_a_purge_goes_through_the_tiers_is_gone_after_it(self, store):
        class ReadWhenPurged(MemoryBlobs):
            """Somebody asks just before it is purged."""

            def purge(self, owner=None):
                assert data_of(tiers, "a") == b"1"
                return super().purge(owner)

        far = ReadWhenPurged(max_bytes=MAX_BYTES, clock=self.clock)
        tiers = TieredBlobs([self.near, far])
        far.put(ANN, key("a"), b"1", 60)
        assert tiers.purge(ANN) == 1
        assert data_of(tiers, "a") is None

    def test_a_tier_that_cannot_be_reached_keeps_no_other_from_being_purged(self, store):
        away = RedisBlobs(f"redis://127.0.0.1:{free_port()}/0", SEAL)
        tiers = TieredBlobs([away, self.near])
        assert tiers.put(ANN, key("a"), b"1", 60)
        assert data_of(tiers, "a") == b"1"
        assert not tiers.usage().available
        with pytest.raises(CacheUnavailable):
            tiers.purge(ANN)
        assert self.near.get(key("a")) is None
        tiers.close()


def test_a_folder_that_cannot_be_made_is_told_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=os.strerror(20)):
        DiskBlobs(tmp_path / "file" / "cache", SEAL, max_bytes=1)
