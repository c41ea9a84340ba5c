"""The books of a bounded cache: which keys it holds and which must go. The values lie with its user."""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Generic, TypeVar

from streamscribe.core.integrity import ensure

Key = TypeVar("Key", bound=Hashable)


class _Order(Generic[Key]):
    """The order in which keys go: first those used once, then the protected ones, each from the oldest use on."""

    def __init__(self) -> None:
        self.probation: OrderedDict[Key, None] = OrderedDict()
        self.protected: OrderedDict[Key, None] = OrderedDict()

    def __iter__(self) -> Iterator[Key]:
        return chain(self.probation, self.protected)

    def move(self, key: Key, *, protect: bool) -> None:
        """The key's last place, as used now."""
        self.forget(key)
        (self.protected if protect else self.probation)[key] = None

    def forget(self, key: Key) -> None:
        self.probation.pop(key, None)
        self.protected.pop(key, None)


@dataclass(slots=True)
class _Entry:
    size_bytes: int
    owner: Hashable


class Lru(Generic[Key]):
    """At most `max_entries` keys of together at most `max_bytes`; the one used longest ago goes first.

    `protected_share` makes it survive a scan: so much of the cache is for keys that were used again after they were
    put, and these go last (segmented LRU: Karedla, Love and Wherry, 1994). `owner_share` is how much of the cache the
    keys of one owner may have: they make room for each other.
    """

    def __init__(
        self, max_entries: int, max_bytes: int, *, protected_share: float = 0.0, owner_share: float = 1.0
    ) -> None:
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._max_protected_entries = int(max_entries * protected_share)
        self._max_protected_bytes = int(max_bytes * protected_share)
        self._shared = owner_share < 1
        self._max_owner_entries = ceil(max_entries * owner_share)
        self._max_owner_bytes = int(max_bytes * owner_share)
        self._entries: dict[Key, _Entry] = {}
        self._order: _Order[Key] = _Order()
        self._of_owner: dict[Hashable, _Order[Key]] = {}
        self._owner_bytes: Counter[Hashable] = Counter()
        self._size_bytes = self._protected_bytes = 0
        self.evicted_for_share = 0
        self.evicted_for_space = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys held."""
        return self._size_bytes

    def of_owner(self, owner: Hashable) -> list[Key]:
        """The owner's keys."""
        return list(self._of_owner.get(owner, ()))

    def keys(self) -> list[Key]:
        """All keys held, in the order in which they would go."""
        return list(self._order)

    def get(self, key: Key) -> bool:
        """Whether `key` is held; it counts as used now."""
        if key not in self:
            return False
        self._use(key)
        return True

    def put(self, key: Key, size_bytes: int, owner: Hashable = None) -> list[Key] | None:
        """Holds `key`, which was not held or has a new size; returns the keys evicted for it, oldest first.

        None when it is larger than the cache or the owner's share: nothing changes then.
        """
        for_share = self._victims_of(owner, key, size_bytes) if self._shared else []
        evicted = None if for_share is None else self._victims(key, size_bytes, for_share)
        if for_share is None or evicted is None:
            return None
        self.evicted_for_share += len(for_share)
        self.evicted_for_space += len(evicted) - len(for_share)
        again = key in self._entries
        for victim in [*evicted, key]:
            self.remove(victim)
        self._entries[key] = _Entry(size_bytes, owner)
        self._size_bytes += size_bytes
        self._owner_bytes[owner] += size_bytes
        self._of_owner.setdefault(owner, _Order())
        self._move(key, protect=False)
        if again:
            self._use(key)
        return evicted

    def remove(self, key: Key) -> bool:
        """Forgets a key; False when it is not held."""
        if key not in self._entries:
            return False
        entry = self._entries.pop(key)
        self._size_bytes -= entry.size_bytes
        self._protected_bytes -= entry.size_bytes if key in self._order.protected else 0
        self._order.forget(key)
        self._of_owner[entry.owner].forget(key)
        self._owner_bytes[entry.owner] -= entry.size_bytes
        if not any(True for _ in self._of_owner[entry.owner]):
            del self._of_owner[entry.owner], self._owner_bytes[entry.owner]
        return True

    def check_integrity(self) -> None:
        """Sizes sum up to `size_bytes`, as do the owners'; all bounds hold."""
        sizes = {key: entry.size_bytes for key, entry in self._entries.items()}
        ensure(sum(sizes.values()) == self._size_bytes, "size_bytes == sum of sizes")
        ensure(self._size_bytes <= self._max_bytes, "size_bytes <= max_bytes")
        ensure(len(sizes) <= self._max_entries, "entries <= max_entries")
        ensure(set(self._order) == sizes.keys(), "all keys are in order")
        protected = self._order.protected
        ensure(sum(sizes[key] for key in protected) == self._protected_bytes, "protected bytes add up")
        ensure(self._protected_bytes <= self._max_protected_bytes, "protected bytes <= their share")
        ensure(len(protected) <= self._max_protected_entries, "protected entries <= their share")
        ensure(self._of_owner.keys() == self._owner_bytes.keys(), "owners agree")
        ensure(sum(len(list(order)) for order in self._of_owner.values()) == len(sizes), "each key has one owner")
        for owner, order in self._of_owner.items():
            ensure(set(order.protected) <= set(protected), "owners protect what is protected")
            ensure(sum(sizes[key] for key in order) == self._owner_bytes[owner], "owner's bytes add up")
            ensure(self._owner_bytes[owner] <= self._max_owner_bytes, "owner's bytes <= its share")
            ensure(len(list(order)) <= self._max_owner_entries, "owner's entries <= its share")

    def _move(self, key: Key, *, protect: bool) -> None:
        entry = self._entries[key]
        self._protected_bytes -= entry.size_bytes if key in self._order.protected else 0
        self._protected_bytes += entry.size_bytes if protect else 0
        for order in (self._order, self._of_owner[entry.owner]):
            order.move(key, protect=protect)

    def _use(self, key: Key) -> None:
        """The key is used again: it is protected, and those protected before it lose that where it is too much."""
        fits = self._entries[key].size_bytes <= self._max_protected_bytes and self._max_protected_entries > 0
        self._move(key, protect=fits)
        while (
            self._protected_bytes > self._max_protected_bytes
            or len(self._order.protected) > self._max_protected_entries
        ):
            self._move(next(iter(self._order.protected)), protect=False)

    def _victims_of(self, owner: Hashable, key: Key, size_bytes: int) -> list[Key] | None:
        """What of the owner's has to go so that it keeps to its share with `key`, or None when that is not enough."""
        own = self._of_owner.get(owner, _Order[Key]())
        replaces = key in self._entries and self._entries[key].owner == owner
        entries = len(own.probation) + len(own.protected) - replaces + 1 - self._max_owner_entries
        over_bytes = self._owner_bytes[owner] - (self._entries[key].size_bytes if replaces else 0)
        return self._oldest(own, entries, over_bytes + size_bytes - self._max_owner_bytes, {key})

    def _victims(self, key: Key, size_bytes: int, gone: list[Key]) -> list[Key] | None:
        """`gone` and what else has to go so that `key` fits, or None when that is not enough."""
        leaving = {*gone, key} & self._entries.keys()
        entries = len(self._entries) - len(leaving) + 1 - self._max_entries
        over_bytes = self._size_bytes - sum(self._entries[other].size_bytes for other in leaving)
        over_bytes += size_bytes - self._max_bytes
        more = self._oldest(self._order, entries, over_bytes, leaving)
        return None if more is None else [*gone, *more]

    def _oldest(self, order: _Order[Key], entries: int, size_bytes: int, but_for: set[Key]) -> list[Key] | None:
        """The first of `order` that make so many entries and bytes free, `but_for` some."""
        victims: list[Key] = []
        for candidate in order:
            if entries <= 0 and size_bytes <= 0:
                break
            if candidate not in but_for:
                victims.append(candidate)
                entries -= 1
                size_bytes -= self._entries[candidate].size_bytes
        return victims if entries <= 0 and size_bytes <= 0 else None
