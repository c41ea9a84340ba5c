"""Keeps what was made of lists that come again and again: a tenant's rules, a session's hot words.

Knows of the core only, so that texts and models may both use it.
"""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from streamscribe.core.ids import TenantId
from streamscribe.core.lru import Lru

Source = TypeVar("Source", bound=Hashable)
Made = TypeVar("Made")

MAX_ENTRIES = 512
MAX_SIZE = 2_000_000
"""Of lists that are measured in characters: a compiled one takes some 100 bytes for each."""


class Compiled(Generic[Source, Made]):
    """Calls `make` once for each list of a tenant, as long as it is among those used last.

    Kept are at most `max_entries`, whose lists are together of at most `max_size`, as `size` measures a list. What was
    made for one tenant serves no other (law 9), though their lists be equal. Safe to use from many threads.
    """

    def __init__(
        self,
        make: Callable[[Source], Made],
        size: Callable[[Source], int],
        *,
        max_entries: int = MAX_ENTRIES,
        max_size: int = MAX_SIZE,
    ) -> None:
        self._make = make
        self._size = size
        self._books: Lru[tuple[TenantId | None, Source]] = Lru(max_entries, max_size)
        self._held: dict[tuple[TenantId | None, Source], Made] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def of(self, tenant_id: TenantId | None, source: Source) -> Made:
        """What was made of the tenant's list; one too large to be kept is made each time."""
        key = tenant_id, source
        with self._lock:
            if self._books.get(key):
                return self._held[key]
        made = self._make(source)
        with self._lock:
            evicted = self._books.put(key, self._size(source))
            if evicted is not None:
                for old in evicted:
                    del self._held[old]
                self._held[key] = made
        return made

    def check_integrity(self) -> None:
        """The books' equation; what is in the books is held, and nothing else."""
        with self._lock:
            self._books.check_integrity()
            if len(self._books) != len(self._held) or not all(key in self._books for key in self._held):
                raise AssertionError("held == in the books")
