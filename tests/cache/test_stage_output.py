"""The cache of a stage's outputs: bounded, exact in its books, frozen, and apart by tenant."""

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.cache.stage_output import Eviction, StageOutputCache
from streamscribe.core.cachekey import CacheKey, CacheKeys
from streamscribe.core.ids import TenantId
from tests.contracts.blob_store import Clock

KEYS = CacheKeys(b"0123456789abcdef")
ANN, BOB = TenantId("ann"), TenantId("bob")
ROW = 4 * 8


def rows(count, value=0.0):
    return np.full((count, 8), value, np.float32)


def key(name):
    return CacheKey(name)


def make(max_entries=10, max_bytes=10 * ROW, tenant_share=1.0, **how):
    return StageOutputCache(max_entries=max_entries, max_bytes=max_bytes, tenant_share=tenant_share, **how)


def test_what_was_put_is_got_and_cannot_be_written_to_by_anyone():
    cache, mine = make(), rows(2)
    assert cache.put(ANN, key("a"), mine)
    mine[:] = 9
    got = cache.get(key("a"))
    assert got is not None
    assert (got == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        got[0, 0] = 1


def test_values_are_copied_while_others_use_the_cache():
    class Large(np.ndarray):
        """Takes long to copy: meanwhile somebody else asks."""

        def copy(self, order="C"):
            other = threading.Thread(target=lambda: found.append(cache.get(key("a"))), daemon=True)
            other.start()
            other.join(10)
            return np.array(self, order=order)

    cache, found = make(), []
    cache.put(ANN, key("a"), rows(1))
    assert cache.put(ANN, key("b"), rows(2).view(Large))
    assert len(found) == 1
    assert found[0] is not None


def test_a_frozen_array_is_kept_as_it_is_but_a_frozen_view_of_a_writable_one_is_copied():
    cache, whole = make(), rows(2)
    whole.flags.writeable = False
    cache.put(ANN, key("a"), whole)
    assert cache.get(key("a")) is whole
    owner = rows(4)
    view = owner[:2]
    view.flags.writeable = False
    cache.put(ANN, key("b"), view)
    owner[:] = 9
    got = cache.get(key("b"))
    assert got is not None
    assert (got == 0).all()


@pytest.mark.parametrize(("max_entries", "max_bytes"), [(0, 1000), (10, 0)])
def test_a_cache_without_entries_or_bytes_is_off(max_entries, max_bytes):
    cache = make(max_entries, max_bytes)
    assert not cache.put(ANN, key("a"), rows(1))
    assert cache.get(key("a")) is None
    assert sum(cache.stats().evictions.values()) == 0


def test_evictions_are_counted_by_their_cause():
    cache = make(max_entries=4, tenant_share=0.5)
    for name in "abc":
        cache.put(ANN, key(name), rows(1))
    for name in "de":
        cache.put(BOB, key(name), rows(1))
    cache.put(None, key("f"), rows(1))
    observed = cache.get(key("f"))
    assert observed is not None
    assert cache.remove_if_same(key("f"), observed)
    assert cache.purge(BOB) == 2
    stats = cache.stats()
    assert (stats.entries, stats.size_bytes) == (1, ROW)
    assert stats.evictions == {
        Eviction.SHARE: 1,
        Eviction.SPACE: 1,
        Eviction.INVALID: 1,
        Eviction.PURGE: 2,
        Eviction.EXPIRED: 0,
        Eviction.VERSION: 0,
    }


def test_a_value_ends_with_its_time_and_is_counted_as_expired_whatever_call_comes_next():
    clock = Clock()
    cache = make(ttl_s=60, clock=clock)
    cache.put(ANN, key("a"), rows(1))
    clock.now += 30
    cache.put(BOB, key("b"), rows(2))
    clock.now += 29.9
    assert cache.get(key("a")) is not None
    clock.now += 0.1
    assert cache.get(key("a")) is None
    assert cache.get(key("b")) is not None
    clock.now += 30
    stats = cache.stats()
    assert (stats.entries, stats.size_bytes, stats.evictions[Eviction.EXPIRED]) == (0, 0, 2)
    assert cache.purge() == 0
    cache.check_integrity()


def test_a_sweep_takes_what_has_ended_though_nobody_asks():
    clock = Clock()
    cache = make(ttl_s=60, clock=clock)
    cache.put(ANN, key("a"), rows(1))
    clock.now += 60
    cache.sweep()
    assert not cache._values


def test_a_value_that_is_put_again_has_its_new_time_and_one_that_is_got_has_not():
    clock = Clock()
    cache = make(ttl_s=60, clock=clock)
    for name in "ab":
        cache.put(ANN, key(name), rows(1))
    clock.now += 40
    cache.put(ANN, key("a"), rows(1))
    assert cache.get(key("b")) is not None
    clock.now += 40
    assert cache.get(key("a")) is not None
    assert cache.get(key("b")) is None


@given(st.lists(st.tuples(st.sampled_from("pgri"), st.integers(0, 9), st.integers(0, 40)), max_size=60))
def test_law_7_what_is_held_is_what_a_model_of_its_times_says_and_every_value_that_left_is_counted(steps):
    clock = Clock()
    cache = make(max_entries=100, max_bytes=100 * ROW, ttl_s=60, clock=clock)
    ends, put = {}, 0
    for what, clip, seconds in steps:
        clock.now += seconds
        ends = {name: end for name, end in ends.items() if end > clock.now}
        name = key(str(clip))
        match what:
            case "p":
                put += name not in ends
                cache.put(ANN, name, rows(1))
                ends[name] = clock.now + 60
            case "r":
                assert cache.purge() == len(ends)
                ends = {}
            case "i" if (observed := cache.get(name)) is not None:
                assert cache.remove_if_same(name, observed)
                del ends[name]
        assert (cache.get(name) is not None) == (name in ends)
        stats = cache.stats()
        assert stats.entries == len(ends) == put - sum(stats.evictions.values())
        assert stats.size_bytes == len(ends) * ROW
        cache.check_integrity()


def test_a_value_larger_than_a_tenants_share_is_not_kept():
    cache = make(tenant_share=0.5)
    assert not cache.put(ANN, key("a"), rows(6))
    assert cache.put(ANN, key("a"), rows(5))


def test_an_invalid_value_is_dropped_only_while_no_other_has_taken_its_place():
    cache = make()
    cache.put(ANN, key("a"), rows(1))
    observed = cache.get(key("a"))
    assert observed is not None
    cache.put(ANN, key("a"), rows(1, 7.0))
    assert not cache.remove_if_same(key("a"), observed)
    got = cache.get(key("a"))
    assert got is not None
    assert cache.remove_if_same(key("a"), got)
    assert cache.get(key("a")) is None


def test_a_value_that_leaves_lives_on_with_whoever_got_it():
    cache = make(max_entries=1)
    cache.put(ANN, key("a"), rows(1, 3.0))
    got = cache.get(key("a"))
    cache.put(ANN, key("b"), rows(1))
    cache.purge()
    assert got is not None
    assert (got == 3).all()
    assert cache.stats().size_bytes == 0


def test_what_a_namespace_put_goes_with_the_last_who_asks_for_it():
    cache = make()
    for namespace in ("old", "old", "new"):
        cache.enter(namespace)
    for name, namespace in (("a", "old"), ("b", "new"), ("c", None), ("d", "old")):
        assert cache.put(ANN, key(name), rows(1), namespace)
    cache.leave("old")
    assert cache.stats().entries == 4
    cache.leave("old")
    assert [cache.get(key(name)) is not None for name in "abcd"] == [False, True, True, False]
    assert not cache.put(ANN, key("a"), rows(1), "old")
    stats = cache.stats()
    assert (stats.entries, stats.size_bytes, stats.evictions[Eviction.VERSION]) == (2, 2 * ROW, 2)
    cache.check_integrity()


def test_values_used_again_survive_a_scan():
    cache = make(max_entries=10, max_bytes=1000 * ROW)
    for name in range(8):
        cache.put(ANN, key(f"hot{name}"), rows(1))
        cache.get(key(f"hot{name}"))
    for name in range(1000):
        cache.put(ANN, key(f"cold{name}"), rows(1))
    assert all(cache.get(key(f"hot{name}")) is not None for name in range(8))


def test_law_7_the_bytes_are_exact_after_100_000_random_operations_on_8_threads():
    ticks, over = itertools.count(), threading.Event()
    clock = lambda: 10**9 if over.is_set() else next(ticks)  # noqa: E731 - it stands still once all is counted
    cache = make(max_entries=50, max_bytes=300 * ROW, tenant_share=0.5, ttl_s=1000, clock=clock)
    values = [rows(count) for count in range(1, 20)]
    for value in values:
        value.flags.writeable = False
    keys = [(tenant, KEYS.derive(tenant, "t", clip)) for tenant in (ANN, BOB, None) for clip in range(60)]

    def work(seed):
        random_ = random.Random(seed)
        cache.enter(seed % 3)
        for number in range(12_500):
            tenant, key = random_.choice(keys)
            match random_.randrange(20):
                case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7:
                    cache.put(tenant, key, random_.choice(values))
                case 8:
                    if (observed := cache.get(key)) is not None:
                        cache.remove_if_same(key, observed)
                case 9:
                    cache.put(tenant, key, random_.choice(values), seed % 3)
                case _:
                    cache.get(key)
            if number % 1000 == 0:
                cache.check_integrity()
            if number % 3000 == 0:
                cache.purge(tenant)
            if number % 2000 == 0:
                cache.leave(seed % 3)
                cache.enter(seed % 3)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, seed) for seed in range(8)]:
            done.result()
    cache.check_integrity()
    assert cache.stats().evictions[Eviction.EXPIRED] > 0
    over.set()
    for number, (tenant, key) in enumerate(keys[:20]):
        cache.put(tenant, key, values[number % len(values)])
    stats = cache.stats()
    held = [value for _, key in keys if (value := cache.get(key)) is not None]
    assert stats.entries == len(held) > 0
    assert stats.size_bytes == sum(value.nbytes for value in held)
    cache.purge()
    assert (cache.stats().entries, cache.stats().size_bytes) == (0, 0)


def test_law_9_two_tenants_with_the_same_audio_never_hit_each_others_values():
    cache = make(max_entries=40, max_bytes=1000 * ROW, tenant_share=0.5)
    random_ = random.Random(0)
    owners = {ANN: 1.0, BOB: 2.0}
    hits, shared, put = 0, 0, set()
    for _ in range(10_000):
        tenant, clip = random_.choice([ANN, BOB]), f"{random_.randrange(50)}"
        mine = KEYS.derive(tenant, "encoder", clip)
        found = cache.get(mine)
        if found is not None:
            hits += 1
            shared += bool((found != owners[tenant]).any()) or (tenant, clip) not in put
        else:
            cache.put(tenant, mine, rows(1, owners[tenant]))
            put.add((tenant, clip))
    assert shared == 0
    assert hits > 1000
