"""Numbered items in order, each exactly once: the ledger of a session's audio and of a worker's records.

An item that comes early is held, within a bounded window, until the one before it has come; one that comes again is
a duplicate. What is missing for too long is a gap. Sequences are uint32 and never wrap within a session.
"""

from enum import Enum
from typing import Final, Generic, TypeVar

from streamscribe.core.errors import BadRequest, SequenceGap
from streamscribe.core.integrity import ensure

MAX_SEQUENCE = 2**32 - 1

T = TypeVar("T")


class Repeated(Enum):
    """The type of `DUPLICATE`."""

    DUPLICATE = "duplicate"


DUPLICATE: Final = Repeated.DUPLICATE
"""The item was taken before and is dropped."""


class Intake(Generic[T]):
    """Puts one stream's items in order.

    `window` items and `window_bytes` bytes are held at most; a window of 0 holds none, so that anything early is a
    gap at once. `firsts` are the sequences that the very first item may have: the stream begins with it.
    """

    def __init__(
        self,
        *,
        window: int = 0,
        window_bytes: int = 0,
        gap_timeout_s: float = 0.0,
        firsts: tuple[int, ...] = (0,),
        next_sequence: int | None = None,
    ) -> None:
        self._window = window
        self._window_bytes = window_bytes
        self._gap_timeout_s = gap_timeout_s
        self._firsts = firsts
        self._first = next_sequence
        self._next = next_sequence or 0
        self._held: dict[int, tuple[T, int]] = {}
        self._held_bytes = 0
        self._gap_since: float | None = None
        self._released = 0

    @property
    def next_sequence(self) -> int:
        """The first sequence that has not been released; 0 before the first item."""
        return self._next

    @property
    def released(self) -> int:
        """How many items have been given out."""
        return self._released

    @property
    def holding(self) -> bool:
        """Whether items wait for an earlier one."""
        return bool(self._held)

    def has(self, sequence: int) -> bool:
        """Whether this sequence was taken before: it would be a duplicate."""
        return self._first is not None and (sequence < self._next or sequence in self._held)

    def offer(self, sequence: int, item: T, size_bytes: int, now: float) -> list[T] | Repeated | BadRequest:
        """The items that are in order now (none while this one is held), `DUPLICATE`, or why it cannot be taken."""
        if sequence > MAX_SEQUENCE:
            return BadRequest(f"sequence must be at most {MAX_SEQUENCE}", field="sequence")
        if self._first is None:
            if sequence not in self._firsts:
                return BadRequest(f"the first sequence must be {_either(self._firsts)}", field="sequence")
            self._first = self._next = sequence
        elif sequence == self._next and not self._held:  # the usual case, made short
            pass
        elif self.has(sequence):
            return DUPLICATE
        elif sequence > self._next:
            return self._hold(sequence, item, size_bytes, now)
        self._next += 1
        self._released += 1
        return [item, *self._release(now)] if self._held else [item]

    def _hold(self, sequence: int, item: T, size_bytes: int, now: float) -> list[T] | BadRequest:
        if sequence > self._next + self._window or self._held_bytes + size_bytes > self._window_bytes:
            return self.gap()
        self._held[sequence] = item, size_bytes
        self._held_bytes += size_bytes
        if self._gap_since is None:
            self._gap_since = now
        return []

    def _release(self, now: float) -> list[T]:
        released: list[T] = []
        while self._next in self._held:
            item, size_bytes = self._held.pop(self._next)
            self._held_bytes -= size_bytes
            released.append(item)
            self._next += 1
        self._released += len(released)
        self._gap_since = now if self._held else None  # what is still held waits for another, later gap
        return released

    def forget_held(self) -> int:
        """Drops what is held (it was never acknowledged, so it comes again) and tells its size in bytes."""
        dropped = self._held_bytes
        self._held.clear()
        self._held_bytes = 0
        self._gap_since = None
        return dropped

    def gap(self) -> SequenceGap:
        """The error that names the missing sequence."""
        return SequenceGap(f"sequence {self._next} is missing", field="sequence")

    def next_timer(self) -> float | None:
        """When the missing item counts as lost; None while nothing is missing."""
        return None if self._gap_since is None else self._gap_since + self._gap_timeout_s

    def check_integrity(self) -> None:
        """Released == next - first; what is held lies within the window and its bytes sum up."""
        ensure(self._released == self._next - (self._first or 0), "released == next - first")
        ensure(all(self._next < s <= self._next + self._window for s in self._held), "held within the window")
        ensure(self._held_bytes == sum(size for _, size in self._held.values()), "held bytes == sum of held")
        ensure(self._held_bytes <= self._window_bytes, "held bytes <= window_bytes")
        ensure(bool(self._held) == (self._gap_since is not None), "a gap timer runs while items are held")


def _either(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))
