"""The books of a bounded cache: which keys it holds and which must go. The values lie with its user."""

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from streamscribe.core.integrity import ensure

Key = TypeVar("Key", bound=Hashable)


class Lru(Generic[Key]):
    """At most `max_entries` keys of together at most `max_bytes`; the one used longest ago goes first.

    A pinned key is in use: it is never evicted and keeps its place in the bound until it is unpinned.
    """

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._sizes: OrderedDict[Key, int] = OrderedDict()
        self._pins: Counter[Key] = Counter()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, key: Key) -> bool:
        return key in self._sizes

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys held."""
        return self._size_bytes

    def get(self, key: Key) -> bool:
        """Whether `key` is held; it counts as used now."""
        if key not in self._sizes:
            return False
        self._sizes.move_to_end(key)
        return True

    def put(self, key: Key, size_bytes: int) -> list[Key] | None:
        """Holds `key`, which was not held or has a new size; returns the keys evicted for it, oldest first.

        None when there is no room even without all that is not pinned: nothing changes then. A pinned key keeps its
        size: it cannot be put.
        """
        if key in self._pins:
            return None
        evicted = self._victims(key, size_bytes)
        if evicted is None:
            return None
        for victim in [*evicted, key]:
            self.remove(victim)
        self._sizes[key] = size_bytes
        self._size_bytes += size_bytes
        return evicted

    def pin(self, key: Key) -> bool:
        """Keeps a held key until as many `unpin`; False when it is not held. Counts as a use."""
        if not self.get(key):
            return False
        self._pins[key] += 1
        return True

    def unpin(self, key: Key) -> None:
        """Takes one pin back; raises AssertionError for a key without pins."""
        ensure(key in self._pins, "an unpinned key was pinned")
        self._pins[key] -= 1
        if not self._pins[key]:
            del self._pins[key]

    def remove(self, key: Key) -> bool:
        """Forgets a key; False when it is not held or is pinned."""
        if key not in self._sizes or key in self._pins:
            return False
        self._size_bytes -= self._sizes.pop(key)
        return True

    def check_integrity(self) -> None:
        """Sizes sum up to `size_bytes`; both bounds hold; every pinned key is held."""
        ensure(sum(self._sizes.values()) == self._size_bytes, "size_bytes == sum of sizes")
        ensure(self._size_bytes <= self._max_bytes, "size_bytes <= max_bytes")
        ensure(len(self._sizes) <= self._max_entries, "entries <= max_entries")
        ensure(self._pins.keys() <= self._sizes.keys(), "pinned keys are held")
        ensure(all(count > 0 for count in self._pins.values()), "pins are positive")

    def _victims(self, key: Key, size_bytes: int) -> list[Key] | None:
        """What has to go so that `key` fits, or None when that is not enough."""
        others = len(self._sizes) - (key in self._sizes)
        used_bytes = self._size_bytes - self._sizes.get(key, 0)
        victims: list[Key] = []
        for candidate, candidate_bytes in self._sizes.items():
            if others < self._max_entries and used_bytes + size_bytes <= self._max_bytes:
                break
            if candidate != key and candidate not in self._pins:
                victims.append(candidate)
                others -= 1
                used_bytes -= candidate_bytes
        fits = others < self._max_entries and used_bytes + size_bytes <= self._max_bytes
        return victims if fits else None
