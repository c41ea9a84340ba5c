"""Any use of the books of blobs agrees with a naive model: bounded, and nothing is there after its end."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamscribe.cache.expiry import ExpiringBooks
from streamscribe.core.cachekey import CacheKey, Owner

KEYS = st.sampled_from("abcdefgh").map(CacheKey)
OWNERS = {CacheKey(key): Owner("one" if key < "d" else "two") for key in "abcdefgh"}


class ExpiryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.books = ExpiringBooks(6, 100, 0.5)
        self.held: dict[CacheKey, tuple[int, float]] = {}
        self.now = 0.0

    @rule(key=KEYS, size=st.integers(0, 60), ttl=st.integers(1, 5))
    def what_is_put_is_held_until_its_end(self, key, size, ttl):
        evicted = self.books.put(key, size, OWNERS[key], self.now + ttl)
        if evicted is None:
            assert size > 50
            return
        for old in evicted:
            del self.held[old]
        self.held[key] = size, self.now + ttl
        assert self.books.expires(key) == self.now + ttl

    @rule(key=KEYS)
    def a_look_up_gives_nothing_that_has_ended(self, key):
        assert self.books.get(key, self.now) == (key in self.held and self.held[key][1] > self.now)

    @rule(key=KEYS)
    def a_removed_key_is_gone(self, key):
        assert self.books.remove(key) == (key in self.held)
        self.held.pop(key, None)

    @rule(passed=st.integers(0, 3))
    def what_has_ended_is_told_once(self, passed):
        self.now += passed
        ended = self.books.expired(self.now)
        assert sorted(ended) == sorted(key for key, (_, end) in self.held.items() if end <= self.now)
        for key in ended:
            del self.held[key]

    @invariant()
    def the_books_are_right(self):
        self.books.check_integrity()
        assert set(self.books.keys()) == self.held.keys()
        assert set(self.books.keys(Owner("one"))) == {key for key in self.held if OWNERS[key] == "one"}
        assert self.books.size_bytes == sum(size for size, _ in self.held.values())


TestExpiry = ExpiryMachine.TestCase


def test_ends_of_keys_that_left_before_do_not_pile_up():
    books = ExpiringBooks(10, 100, 1.0)
    for number in range(10_000):
        books.put(CacheKey(str(number % 20)), 1, Owner("one"), 1e9 + number)
    assert len(books._ends) <= 2 * 10 + 65
    books.check_integrity()
