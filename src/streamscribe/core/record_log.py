"""The records of a session: numbered without gaps, and durable up to where."""

from collections import deque

from streamscribe.core.integrity import ensure


class RecordLog:
    """Numbers a session's records and knows up to where its audio is durable.

    Holds one pair for each audio record that is not durable yet; the shell publishes in order and waits, so they are
    at most as many as one event may release.
    """

    def __init__(self, published: int = 0, durable_sequence: int | None = None) -> None:
        """Goes on behind so many `published` records, whose audio up to `durable_sequence` is durable."""
        self._published = published
        self._durable = published
        self._audio = 0
        self._pending: deque[tuple[int, int]] = deque()
        self._durable_sequence = durable_sequence

    @property
    def published(self) -> int:
        """How many records there are: the index of the next."""
        return self._published

    @property
    def audio(self) -> int:
        """How many of those that were numbered here are audio."""
        return self._audio

    @property
    def settled(self) -> bool:
        """Whether all records are durable."""
        return self._durable == self._published

    @property
    def durable_sequence(self) -> int | None:
        """The audio up to this sequence is durable; None if none is."""
        return self._durable_sequence

    def number(self, sequence: int | None = None) -> int:
        """The index of a record to be published now; `sequence` is given for audio."""
        index = self._published
        self._published += 1
        if sequence is not None:
            self._audio += 1
            self._pending.append((index, sequence))
        return index

    def confirm(self, index: int) -> bool:
        """Every record up to `index` is durable; tells whether more audio has become so."""
        ensure(index < self._published, "durable < published")
        self._durable = max(self._durable, index + 1)
        before = self._durable_sequence
        while self._pending and self._pending[0][0] < self._durable:
            self._durable_sequence = self._pending.popleft()[1]
        return self._durable_sequence != before

    def check_integrity(self) -> None:
        """Durable <= published, and exactly the audio between the two is pending."""
        ensure(self._durable <= self._published, "durable <= published")
        ensure(len(self._pending) <= self._published - self._durable, "pending <= published - durable")
        ensure(all(self._durable <= i < self._published for i, _ in self._pending), "durable <= pending < published")
