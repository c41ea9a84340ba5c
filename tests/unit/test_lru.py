"""The cache's books, case by case."""

import pytest

from streamscribe.core.lru import Lru


def filled(max_entries=3, max_bytes=100, **sizes):
    lru = Lru(max_entries, max_bytes)
    for key, size in sizes.items():
        assert lru.put(key, size) == []
    return lru


def test_the_key_used_longest_ago_is_evicted_first():
    lru = filled(a=10, b=10, c=10)
    assert lru.get("a")
    assert lru.put("d", 10) == ["b"]
    assert "a" in lru
    assert not lru.get("b")


def test_bytes_are_bounded_as_entries_are():
    lru = filled(max_entries=10, a=40, b=40)
    assert lru.put("c", 90) == ["a", "b"]
    assert lru.size_bytes == 90


def test_what_is_larger_than_the_cache_changes_nothing():
    lru = filled(a=10)
    assert lru.put("b", 101) is None
    assert "a" in lru


def test_a_cache_of_size_zero_holds_nothing():
    assert Lru(0, 0).put("a", 0) is None


def test_a_key_put_again_has_its_new_size():
    lru = filled(max_entries=2, a=60, b=10)
    assert lru.put("a", 90) == []
    assert lru.size_bytes == 100
    assert lru.put("b", 20) == ["a"]


def test_a_pinned_key_is_neither_evicted_nor_removed_nor_replaced():
    lru = filled(max_entries=2, a=50, b=50)
    assert lru.pin("a")
    assert lru.put("c", 50) == ["b"]
    assert lru.put("d", 60) is None
    assert not lru.remove("a")
    assert lru.put("a", 1) is None
    lru.unpin("a")
    assert lru.remove("a")


def test_each_pin_has_its_own_unpin():
    lru = filled(a=10)
    assert lru.pin("a")
    assert lru.pin("a")
    lru.unpin("a")
    assert not lru.remove("a")
    lru.unpin("a")
    with pytest.raises(AssertionError):
        lru.unpin("a")


def test_what_is_not_held_cannot_be_pinned_or_removed():
    lru = filled()
    assert not lru.pin("a")
    assert not lru.remove("a")
    assert len(lru) == 0
