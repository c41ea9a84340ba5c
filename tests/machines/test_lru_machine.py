"""Any use of the cache's books keeps them within their bounds, and agrees with a naive model."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamscribe.core.lru import Lru

MAX_ENTRIES, MAX_BYTES = 4, 100
KEYS = st.sampled_from("abcdefgh")


class LruMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lru = Lru(MAX_ENTRIES, MAX_BYTES)
        self.held: dict[str, int] = {}

    def use(self, key):
        self.held[key] = self.held.pop(key)

    @rule(key=KEYS)
    def a_look_up_tells_what_is_held(self, key):
        assert self.lru.get(key) == (key in self.held)
        if key in self.held:
            self.use(key)

    @rule(key=KEYS, size=st.integers(0, 120))
    def law_7_what_is_put_evicts_the_oldest_and_no_more_than_needed(self, key, size):
        evicted = self.lru.put(key, size)
        others = {other: held for other, held in self.held.items() if other != key}
        if evicted is None:
            assert size > MAX_BYTES
            return
        assert evicted == list(others)[: len(evicted)]
        if evicted:
            one_less = [held for other, held in others.items() if other not in evicted[:-1]]
            assert sum(one_less) + size > MAX_BYTES or len(one_less) >= MAX_ENTRIES
        self.held = {other: held for other, held in others.items() if other not in evicted} | {key: size}

    @rule(key=KEYS)
    def what_is_removed_is_gone(self, key):
        assert self.lru.remove(key) == (key in self.held)
        self.held.pop(key, None)

    @invariant()
    def the_books_are_right(self):
        self.lru.check_integrity()
        assert self.lru.size_bytes == sum(self.held.values())
        assert len(self.lru) == len(self.held)
        assert all(key in self.lru for key in self.held)


OWNERS = st.sampled_from(["ann", "bob", None])


class SharedLruMachine(RuleBasedStateMachine):
    """With all that a cache between tenants asks of the books: shares and a protected part."""

    def __init__(self) -> None:
        super().__init__()
        self.lru = Lru(6, MAX_BYTES, protected_share=0.6, owner_share=0.5)
        self.held: dict[tuple[str | None, str], int] = {}

    @rule(owner=OWNERS, key=KEYS)
    def a_look_up_tells_what_is_held(self, owner, key):
        assert self.lru.get((owner, key)) == ((owner, key) in self.held)

    @rule(owner=OWNERS, key=KEYS, size=st.integers(0, 60))
    def law_9_an_owner_over_its_share_evicts_its_own(self, owner, key, size):
        own = sum(held for (other, name), held in self.held.items() if other == owner and name != key)
        room = sum(self.held.values()) + size <= MAX_BYTES and len(self.held) < 6
        before = self.lru.evicted_for_share
        evicted = self.lru.put((owner, key), size, owner)
        if evicted is None:
            assert size > MAX_BYTES // 2
            return
        assert (owner, key) not in evicted
        for_share = self.lru.evicted_for_share - before
        assert all(other == owner for other, _ in evicted[:for_share])
        if room:
            assert all(other == owner for other, _ in evicted)
        if own + size > MAX_BYTES // 2:
            assert for_share
        for victim in evicted:
            del self.held[victim]
        self.held[owner, key] = size

    @rule(owner=OWNERS, key=KEYS)
    def what_is_removed_is_gone(self, owner, key):
        assert self.lru.remove((owner, key)) == ((owner, key) in self.held)
        self.held.pop((owner, key), None)

    @rule(owner=OWNERS)
    def an_owners_keys_are_known(self, owner):
        assert set(self.lru.of_owner(owner)) == {key for key in self.held if key[0] == owner}

    @invariant()
    def the_books_are_right(self):
        self.lru.check_integrity()
        assert set(self.lru.keys()) == self.held.keys()
        assert len(self.lru) == len(self.held)
        assert self.lru.size_bytes == sum(self.held.values())


TestLru = LruMachine.TestCase
TestSharedLru = SharedLruMachine.TestCase
