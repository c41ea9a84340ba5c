"""What the service keeps and looks up: for which encoder, counted how, and what a look-up finds that was late."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.purges import Purges
from streamscribe.cache.resting import RestingOutputs
from streamscribe.cache.stage_output import Eviction
from streamscribe.cache.tally import Asked
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.cache_worth import Turn, WorthPolicy
from streamscribe.core.cachekey import CacheKeys
from streamscribe.encoder.encoding import Lookup
from streamscribe.encoder.service import EncoderService
from streamscribe.models.ports import SegmentRequest, Window
from tests.encoder.kit import SECRET, FakeEncoder, Recorder, WatchedCache, clip, results, rig, tenant, until

ANN, BOB = tenant("ann"), tenant("bob")


@contextmanager
def service(cache, weights="of the fake", identity=FakeEncoder.encoder_identity, *, features=None, front_end=None):
    """One of several services over one cache."""
    encoder = FakeEncoder()
    encoder.encoder_identity = identity
    encoder.front_end = front_end or FakeEncoder.front_end
    one = EncoderService(
        encoder,
        weights=weights,
        fingerprints=Fingerprints(SECRET),
        keys=CacheKeys(SECRET),
        cache=cache,
        features=features,
        observer=Recorder(),
        policy=BatchPolicy(),
    )
    one.start()
    one.wait_ready()
    try:
        yield lambda seed: one.submit(SegmentRequest(clip(seed)), priority=Priority.NORMAL).result(timeout=60).lookup
    finally:
        one.close()


OTHERS = {
    "weights": {"weights": "of another"},
    "library version": {"identity": ("fake encoder", 2)},
    "dtype": {"identity": (*FakeEncoder.encoder_identity, "float16")},
    "attention": {"identity": (*FakeEncoder.encoder_identity, "flash")},
    "class": {"identity": ("another encoder", 1)},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_one_encoder_made_is_not_found_for_another(other):
    cache = WatchedCache()
    with service(cache) as first, service(cache, **other) as second, service(cache) as equal:
        assert (first(1), second(1), equal(1)) == (Lookup.MISS, Lookup.MISS, Lookup.HIT)
        assert second(1) is Lookup.HIT


def test_what_a_version_made_that_serves_no_more_is_dropped_but_not_while_an_equal_one_serves():
    cache = WatchedCache()
    with service(cache, "new") as new:
        with service(cache) as equal:
            with service(cache) as old:
                assert old(1) is Lookup.MISS
            assert equal(1) is Lookup.HIT
            assert new(1) is Lookup.MISS
        assert cache.stats().entries == 1
        assert cache.stats().evictions[Eviction.VERSION] == 1
        assert new(1) is Lookup.HIT
    assert (cache.stats().entries, cache.stats().size_bytes) == (0, 0)
    cache.check_integrity()


class Shelf(dict):
    """A store of features that counts what it found."""

    found = 0

    def get(self, key):
        self.found += key in self
        return super().get(key)

    def put(self, tenant, key, rows):
        self[key] = rows


def test_features_are_found_for_the_same_front_end_whatever_model_reads_them_and_for_no_other():
    shelf = Shelf()
    with service(None, features=shelf) as first:
        assert first(1) is Lookup.MISS
        until(lambda: len(shelf) == 1)
    with service(None, "other weights", features=shelf) as other_model:
        other_model(1)
        assert shelf.found == 1
    with service(None, features=shelf, front_end=("fake", 2)) as other_front_end:
        other_front_end(1)
        assert shelf.found == 1
        until(lambda: len(shelf) == 2)


def test_features_of_another_window_or_tenant_are_not_found():
    shelf = Shelf()
    with rig(features=shelf) as one:
        for window in Window:
            for who in (ANN, BOB):
                one.submit(clip(1), window=window, tenant_id=who).result(timeout=60)
        until(lambda: len(shelf) == 4)
        assert (shelf.found, one.encoder.read) == (0, 4)


def test_trials_of_an_encoder_are_neither_counted_nor_kept():
    cache = WatchedCache()
    with rig(cache=cache, max_inflight=9) as one:
        one.encoder.spoil = lambda rows: rows * np.float32(np.nan)
        results_ = [one.submit(clip(seed)).exception(timeout=60) for seed in range(5)]
        assert all(results_)
        until(lambda: not one.service.ready)
        until(lambda: len(one.observer.steps) == 5)
        passes = len(one.encoder.batches)
        assert passes > 5  # the trial among them
        assert not one.observer.lookups
        assert sum(step.batch_size for step in one.observer.steps) == 5
        assert (cache.asked, cache.given) == (Asked(), [])


def test_the_warm_up_and_the_comparison_of_batches_leave_every_cache_empty():
    class Store(dict):
        def put(self, tenant, key, rows):
            self[key] = rows

    cache, store = WatchedCache(), Store()
    with rig(cache=cache, features=store) as one:
        assert (cache.stats().entries, len(store), cache.given) == (0, 0, [])
        assert cache.asked == Asked()
        assert not one.observer.lookups


class Paused(WatchedCache):
    """Its first look-up of a key waits at a gate once it has found nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.looked, self.go_on = threading.Event(), threading.Event()

    def get(self, key):
        found = super().get(key)
        if not self.looked.is_set():
            self.looked.set()
            self.go_on.wait()
        return found


def test_a_look_up_that_paused_finds_what_was_put_before_it_joined():
    cache = Paused()
    with rig(cache=cache) as one:
        late = one.submit(clip(1))
        cache.looked.wait()
        assert one.submit(clip(1)).result(timeout=60).lookup is Lookup.MISS
        cache.go_on.set()
        assert late.result(timeout=60).lookup is Lookup.HIT
        assert one.encoder.encoded(clip(1)) == 1


@pytest.mark.parametrize("leads", [True, False])
def test_nothing_is_kept_of_an_encoding_for_which_only_those_wait_of_whom_nothing_may_be_kept(leads):
    cache = WatchedCache()
    with rig(cache=cache) as one:
        held = one.occupy()
        futures = []
        for store in (leads, not leads):
            futures.append(one.submit(clip(1), store=store))
            until(lambda: len(one.service._flights._flight_of) == 1 + len(futures))
        one.queued(2)
        assert futures[0 if leads else 1].cancel()
        one.encoder.gate.set()
        results([held, futures[1 if leads else 0]])
        assert len(cache.given) == 1  # what occupied the encoder


def test_nothing_is_kept_of_an_encoding_that_one_who_waits_began_before_a_purge_whoever_leads_it():
    cache, purges = WatchedCache(), Purges()
    with rig(cache=cache, purges=purges) as one:
        began = one.service.begin()
        purges.purge(ANN)
        held = one.occupy()
        futures = [one.submit(clip(1), tenant_id=ANN, store=False)]
        one.queued(2)
        late = SegmentRequest(clip(1), tenant_id=ANN)
        futures.append(one.service.submit(late, priority=Priority.NORMAL, began=began))
        until(lambda: len(one.service._flights._flight_of) == 3)
        one.encoder.gate.set()
        results([held, *futures])
        assert len(cache.given) == 1


def test_a_request_is_counted_once_and_a_merged_one_neither_found_nor_missed():
    cache = WatchedCache()
    with rig(cache=cache) as one:
        futures = [one.occupy(), *(one.submit(clip(1)) for _ in range(5))]
        until(lambda: len(one.service._flights._flight_of) == 6)
        one.encoder.gate.set()
        results([*futures, one.submit(clip(1), store=False), one.submit(clip(2), draft=True)])
        assert cache.asked == Asked(hits=0, misses=2)
        results([one.submit(clip(1))])
        assert cache.asked == Asked(hits=1, misses=2)


def test_who_found_an_invalid_embedding_is_counted_so_though_another_has_it_encoded():
    cache = WatchedCache()
    with rig(cache=cache) as one:
        bad = one.submit(clip(1)).result().embedding[:-1]
        cache.purge()
        one.occupy()
        futures = [one.submit(clip(1))]
        one.queued(2)
        cache.put(None, cache.given[0], bad)
        futures += [one.submit(clip(1)), one.submit(clip(1))]
        until(lambda: len(one.service._flights._flight_of) == 4)
        one.encoder.gate.set()
        lookups = [encoding.lookup for encoding in results(futures)]
        assert lookups[0] is Lookup.MISS
        assert sorted(lookups[1:]) == [Lookup.INVALID, Lookup.MERGED]
        assert one.observer.lookups == {Lookup.MISS: 3, Lookup.INVALID: 1, Lookup.MERGED: 1}
        assert cache.asked == Asked(hits=0, misses=4)


def test_who_found_an_invalid_embedding_is_counted_so_though_a_valid_one_has_come_meanwhile():
    class Mended(WatchedCache):
        spoilt = False

        def get(self, key):
            found, spoilt, self.spoilt = super().get(key), self.spoilt, False
            return found[:-1] if spoilt else found

    cache = Mended()
    with rig(cache=cache) as one:
        one.submit(clip(1)).result()
        cache.spoilt = True
        assert one.submit(clip(1)).result().lookup is Lookup.INVALID
        assert one.encoder.encoded(clip(1)) == 1


def test_a_cache_that_rests_is_neither_asked_nor_counted():
    turns = []
    policy = WorthPolicy(window=4, patience=2)
    cache = RestingOutputs(turns.append, policy, max_entries=99, max_bytes=1 << 24, tenant_share=1.0)
    with rig(cache=cache) as one:
        for seed in range(7):
            one.submit(clip(seed)).result(timeout=60)
        assert (turns, cache.rests) == ([], False)
        for seed in (7, 7, 7):
            assert one.submit(clip(seed)).result(timeout=60).lookup is Lookup.MISS
        assert (turns, cache.rests) == ([Turn.RESTS], True)
        assert cache.asked == Asked(hits=0, misses=8)
