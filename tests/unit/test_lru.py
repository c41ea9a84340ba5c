"""The cache's books, case by case."""

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


def test_what_is_not_held_cannot_be_removed():
    lru = filled()
    assert not lru.remove("a")
    assert len(lru) == 0


def fair(max_entries=100, max_bytes=100):
    return Lru(max_entries, max_bytes, owner_share=0.5)


def test_an_owner_makes_room_for_its_own_keys_within_its_share():
    lru = fair()
    for key in ("a1", "a2"):
        assert lru.put(key, 25, "ann") == []
    assert lru.put("b1", 50, "bob") == []
    assert lru.put("a3", 25, "ann") == ["a1"]
    assert "b1" in lru
    assert (lru.evicted_for_share, lru.evicted_for_space) == (1, 0)
    assert lru.of_owner("ann") == ["a2", "a3"]


def test_small_keys_count_towards_the_share_as_well():
    lru = fair(max_entries=4)
    for key in "abc":
        lru.put(key, 1, "ann")
    assert lru.of_owner("ann") == ["b", "c"]


def test_what_is_larger_than_an_owners_share_is_not_held():
    lru = fair()
    lru.put("a", 10, "ann")
    assert lru.put("b", 51, "ann") is None
    assert "a" in lru


def test_three_owners_within_their_shares_go_by_the_oldest_use():
    lru = fair()
    for owner in ("ann", "bob"):
        lru.put(owner, 50, owner)
    assert lru.put("eve", 50, "eve") == ["ann"]
    assert (lru.evicted_for_share, lru.evicted_for_space) == (0, 1)


def test_keys_used_again_survive_a_scan_of_keys_used_once():
    lru = Lru(10, 1000, protected_share=0.8)
    for key in range(8):
        lru.put(key, 10)
        lru.get(key)
    for key in range(100, 200):
        lru.put(key, 10)
    assert all(key in lru for key in range(8))
    assert len(lru) == 10


def test_protected_keys_that_are_used_no_more_go_when_others_are():
    lru = Lru(10, 1000, protected_share=0.8)
    for key in range(100):
        lru.put(key, 10)
        lru.get(key)
    assert not any(key in lru for key in range(90))


def test_a_key_larger_than_the_protected_part_does_not_empty_it():
    lru = Lru(10, 100, protected_share=0.5)
    lru.put("small", 10)
    lru.get("small")
    lru.put("large", 60)
    lru.get("large")
    assert lru.put("other", 40) == ["large"]
    assert "small" in lru
