"""The bound that every bus keeps: how much of one session is published and not yet settled."""

from streamscribe.core.integrity import ensure
from streamscribe.core.records import AudioChunk, Record

MAX_UNSETTLED_RECORDS = 10_000
"""Per session; bounds what records without audio (flushes) and very small chunks can hold."""


def audio_bytes(record: Record) -> int:
    """How much of the backlog the record takes."""
    return len(record.data) if isinstance(record, AudioChunk) else 0


class Backlog:
    """One session's ledger, in bytes of its audio and in records: unsettled = added - settled, within its bound."""

    __slots__ = ("max_bytes", "unsettled_bytes", "unsettled_records")

    def __init__(self, max_backlog_s: float, bytes_per_second: int) -> None:
        self.max_bytes = int(max_backlog_s * bytes_per_second)
        self.unsettled_bytes = 0
        self.unsettled_records = 0

    def fits(self, size_bytes: int) -> bool:
        """A message larger than the whole bound fits once nothing else is unsettled, or it never would."""
        held = self.unsettled_bytes
        return self.unsettled_records < MAX_UNSETTLED_RECORDS and (held == 0 or held + size_bytes <= self.max_bytes)

    def add(self, size_bytes: int) -> None:
        """Counts one record."""
        self.unsettled_bytes += size_bytes
        self.unsettled_records += 1

    def settle(self, size_bytes: int) -> None:
        """Frees the place of one record."""
        self.unsettled_bytes -= size_bytes
        self.unsettled_records -= 1

    def begin(self, size_bytes: int = 0, records: int = 0) -> None:
        """Begins anew, with so much unsettled."""
        self.unsettled_bytes, self.unsettled_records = size_bytes, records

    def check_integrity(self) -> None:
        """Nothing was settled that was not added."""
        ensure(self.unsettled_bytes >= 0 and self.unsettled_records >= 0, "settled <= added")
