"""A store of features that hangs, fails or is slow holds nobody, and what waits for threads is bounded."""

import gc
import threading
import weakref

import numpy as np
import pytest

from streamscribe.cache.purges import Purges
from streamscribe.encoder.front import FrontThreads
from streamscribe.encoder.shelf import MAX_KEEPING, FeatureShelf
from tests.encoder.kit import clip, results, rig, right, tenant, until

ROWS = np.ones((2, 4), np.float32)


class Store(dict):
    """Hangs in what it is told to hang in, as a disk that does not answer."""

    def __init__(self, *hangs_in: str) -> None:
        super().__init__()
        self.hangs_in = hangs_in
        self.answers = threading.Event()

    def get(self, key):
        if "get" in self.hangs_in:
            self.answers.wait()
        return super().get(key)

    def put(self, tenant, key, rows):
        if "put" in self.hangs_in:
            self.answers.wait()
        self[key] = rows


@pytest.mark.parametrize("hangs_in", ["get", "put"])
def test_a_disk_that_hangs_stops_nobody_and_is_used_again_when_it_answers(hangs_in):
    store = Store(hangs_in)
    with rig(features=store) as one:
        for seed in range(5):
            assert np.array_equal(one.submit(clip(seed)).result(timeout=60).embedding, right(clip(seed)))
        assert one.encoder.read == 5
        store.answers.set()
        until(lambda: not one.service._lookup._features.hangs)
        one.submit(clip(7)).result(timeout=60)
        until(lambda: store)


def test_closing_waits_for_no_disk_that_hangs():
    store = Store("get")
    with rig(features=store) as one:
        one.submit(clip(1)).result(timeout=60)
        one.service.close()
    store.answers.set()


def shelf(store, purges=None, patience_s=3600.0):
    one = FeatureShelf(store, purges or Purges(), "test", patience_s=patience_s)
    one.start()
    return one


def test_while_a_look_up_hangs_all_others_are_misses_at_once_and_nothing_is_kept():
    store = Store("get")
    one = shelf(store, patience_s=0.01)
    assert one.get("a") is None
    until(lambda: one.hangs)
    for number in range(1000):
        assert one.get(f"{number}") is None
        one.keep(None, 0, f"{number}", ROWS)
    assert not one._keeping
    store.answers.set()
    one.close()
    assert not store


def test_only_so_much_waits_to_be_kept():
    store = Store("put")
    one = shelf(store)
    for number in range(100):
        one.keep(None, 0, f"{number}", ROWS)
    store.answers.set()
    one.close()
    assert len(store) == MAX_KEEPING


def test_what_waits_to_be_kept_when_its_tenant_is_purged_is_not_kept():
    store, purges = Store("get"), Purges()
    one = shelf(store, purges)
    looking = threading.Thread(target=one.get, args=("a",))
    looking.start()
    until(lambda: one._began_s)
    for who in ("ann", "bob"):
        one.keep(tenant(who), purges.begin(), who, ROWS)
    purges.purge(tenant("ann"))
    store.answers.set()
    looking.join()
    one.close()
    assert list(store) == ["bob"]


def test_a_store_that_fails_is_a_miss():
    class Broken(Store):
        def get(self, key):
            raise OSError

        def put(self, tenant, key, rows):
            raise MemoryError

    with rig(features=Broken()) as one:
        results([one.submit(clip(seed)) for seed in range(5)])


def test_work_that_is_dropped_is_let_go_of_at_once_with_all_it_holds():
    front, ran = FrontThreads(1, "test"), []
    held = clip(1)
    gone = weakref.ref(held)
    for number in range(10_000):
        front.run(float(number), number, lambda held=held: ran.append(len(held)))
        if number:
            assert front.drop(number)
    assert not front.drop(1)
    del held
    assert (len(front), len(front._line) < 100) == (1, True)
    front.start()
    front.close()
    assert ran == [16_000]
    until(lambda: not gc.collect() and gone() is None)


def test_requests_that_were_cancelled_hold_no_audio_while_the_front_is_busy():
    store = Store("get")
    with rig(features=store) as one:
        one.service._lookup._features._patience_s = 3600.0
        busy = [one.submit(clip(seed)) for seed in (1, 2)]  # both front threads
        until(lambda: not len(one.service._front) and one.service._lookup._features._began_s)
        for seed in range(100):
            samples = clip(seed + 10, 1600)
            gone = weakref.ref(samples)
            assert one.submit(samples).cancel()
            del samples
            until(lambda gone=gone: not gc.collect(0) and gone() is None)
        assert not len(one.service._front)
        assert one.service.replica._coming == 2
        store.answers.set()
        results(busy)
        until(lambda: not one.service.replica._coming)


def test_ranks_go_first_and_equal_ranks_in_order():
    front, ran = FrontThreads(1, "test"), []
    for number, rank in enumerate((2.0, 1.0, 2.0, 0.5)):
        front.run(rank, number, lambda number=number: ran.append(number))
    front.start()
    front.close()
    assert ran == [3, 1, 0, 2]
