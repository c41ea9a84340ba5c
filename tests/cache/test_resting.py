"""A cache that finds nothing rests, and says so."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.resting import Rest, RestingBlobs, RestingOutputs
from streamscribe.cache.tally import Asked
from streamscribe.core.cache_worth import Turn, WorthPolicy
from streamscribe.core.cachekey import CacheKeys
from tests.cache.kit import ACME

POLICY = WorthPolicy(window=10, patience=2, low=0.1, high=0.2, rest_s=60)


def test_it_tells_each_turn_once_and_may_be_asked_from_within():
    now, turns = [0.0], []

    def hear(turn):
        turns.append((turn, rest.resting()))

    rest = Rest(hear, POLICY, clock=lambda: now[0])
    for _ in range(30):
        if not rest.resting():
            rest.count(found=False)
    assert turns == [(Turn.RESTS, True)]
    now[0] = 60.0
    assert not rest.resting()
    for _ in range(10):
        rest.count(found=True)
    assert turns == [(Turn.RESTS, True), (Turn.TRIED, False), (Turn.STAYS, False)]


def test_many_threads_decide_once():
    turns = []
    rest = Rest(turns.append, POLICY, clock=lambda: 0.0)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: rest.count(found=False), range(1000)))
    assert turns == [Turn.RESTS]
    assert rest.resting()


KEYS = CacheKeys(b"a secret of the tests")
KEY = KEYS.derive(ACME, "embedding", 1)
ROWS = np.ones((2, 4), np.float32)


def test_outputs_are_given_back_when_nothing_is_found_and_none_is_kept_meanwhile():
    turns = []
    cache = RestingOutputs(turns.append, POLICY, max_entries=9, max_bytes=1 << 20, tenant_share=1.0)
    assert cache.put(ACME, KEY, ROWS)
    for number in range(20):
        assert cache.get(KEYS.derive(ACME, "embedding", "other", number)) is None
        cache.looked_up(found=False)
    assert turns == [Turn.RESTS]
    assert cache.rests
    assert cache.stats().entries == 0
    assert not cache.put(ACME, KEY, ROWS)
    assert cache.get(KEY) is None
    cache.check_integrity()


def test_an_output_that_was_being_put_when_the_cache_went_to_rest_is_given_back_too():
    cache = RestingOutputs(lambda turn: None, POLICY, max_entries=9, max_bytes=1 << 20, tenant_share=1.0)

    class LateRows(np.ndarray):
        def copy(self, order="C"):
            for _ in range(20):
                cache.looked_up(found=False)
            assert cache.rests
            return np.array(self)

    assert not cache.put(ACME, KEY, ROWS.view(LateRows))
    assert cache.stats().entries == 0
    cache.check_integrity()


def test_outputs_that_are_found_again_stay():
    turns = []
    cache = RestingOutputs(turns.append, POLICY, max_entries=9, max_bytes=1 << 20, tenant_share=1.0)
    cache.put(ACME, KEY, ROWS)
    for _ in range(100):
        assert cache.get(KEY) is not None
        cache.looked_up(found=True)
    assert cache.asked == Asked(hits=100)
    assert turns == []


def test_blobs_stay_while_their_store_rests_and_can_be_purged():
    turns, kept = [], MemoryBlobs(max_bytes=1000)
    store = RestingBlobs(kept, turns.append, POLICY)
    assert store.put(KEYS.owner(ACME), KEY, b"text", 60)
    for number in range(20):
        assert store.get(KEYS.derive(ACME, "transcript", number)) is None
    assert turns == [Turn.RESTS]
    assert store.get(KEY) is None
    assert store.rest.rests
    assert store.rest.asked == Asked(misses=20)  # what is not asked has not missed
    assert not store.put(KEYS.owner(ACME), KEY, b"other", 60)
    assert store.usage().entries == 1
    assert store.purge(KEYS.owner(ACME)) == 1
