"""What a gateway keeps of one session so that another worker can go on with it. Pure: no socket, no clock."""

from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise

from streamscribe.bus.backlog import Backlog, audio_bytes
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import BadRequest, RateExceeded
from streamscribe.core.integrity import ensure
from streamscribe.core.records import Record, SessionOpened
from streamscribe.wire.bus_records import encode_record

MIN_REPLAY_S = 40.0
"""A worker can always go further within it: the longest segment, the longest silence behind it, and what the detector
hears again. Less could fill up for ever: no checkpoint without more audio, no more audio without a checkpoint."""

FILE_REPLAY_S, MAX_FILE_REPLAY_BYTES = 180.0, 2**24
"""Of a file, whose worker fills three steps with segments before the first of them is done: with less its steps were
smaller. Files are few (`limits.max_files`); a live session needs no more than the other bound."""

MAX_KEPT_RECORDS = 32_768
"""Since a session's checkpoint; as many as the longest segment has in chunks of 1 ms."""


@dataclass(frozen=True, slots=True)
class _Kept:
    index: int
    size_bytes: int
    envelope: bytes


class ReplayLog:
    """A session's records since its checkpoint, as bytes, and how far its worker has them.

    Each record is first unsent, then sent, then forgotten by a checkpoint behind it; at most `max_backlog_s` of audio
    are published and not settled, and the same of what its worker has. `max_replay_s` bounds the audio since the
    checkpoint, up to the record that passes it; of files it may be more (`FILE_REPLAY_S`). Each record is encoded once,
    and moved a constant number of times for each worker that gets it.
    """

    def __init__(self, opened: SessionOpened, max_backlog_s: float, max_replay_s: float) -> None:
        per_second = opened.options.audio.bytes_per_second
        self.opened = opened
        """Record 0, with the newest checkpoint."""
        most = int(max_replay_s * per_second)
        if not opened.options.live:
            most = max(most, min(int(FILE_REPLAY_S * per_second), MAX_FILE_REPLAY_BYTES))
        self._max_behind_bytes = most
        self._published = Backlog(max_backlog_s, per_second)
        self._at_worker = Backlog(max_backlog_s, per_second)
        self._sent: deque[_Kept] = deque()
        self._unsent: deque[_Kept] = deque()
        self._unsettled: deque[int] = deque()  # indices of what the worker has and has not settled
        self._kept_bytes = 0
        self._begun = False
        self._published.add(0)

    @property
    def begun(self) -> bool:
        """Whether the worker that has the session now has got its record 0."""
        return self._begun

    @property
    def behind_bytes(self) -> int:
        """Audio that another worker would hear again."""
        checkpoint = self.opened.checkpoint
        return max(0, self._kept_bytes - (checkpoint.skip_bytes if checkpoint is not None else 0))

    @property
    def head(self) -> int | None:
        """The record that the worker is at: the first that it has not settled; None before it began, or without one."""
        return self._unsettled[0] if self._unsettled and self._unsettled[0] > 0 else None

    @property
    def newest(self) -> int:
        """The last record there is."""
        kept = self._unsent or self._sent
        checkpoint = self.opened.checkpoint
        return kept[-1].index if kept else 0 if checkpoint is None else max(0, checkpoint.index - 1)

    def is_past(self, index: int) -> bool:
        """Whether the worker has processed all up to this record."""
        first = self._unsettled[0] if self._unsettled else self._unsent[0].index if self._unsent else None
        return self._begun and (first is None or first > index)

    def at_or_before(self, index: int) -> bool:
        """Whether another worker would hear this record again."""
        checkpoint = self.opened.checkpoint
        return checkpoint is None or checkpoint.index <= index

    def fits(self, size_bytes: int) -> bool:
        """Whether there is room for so much more audio; what has none needs none for a replay."""
        return self._published.fits(size_bytes) and (not size_bytes or self.behind_bytes < self._max_behind_bytes)

    def append(self, record: Record) -> None:
        """Keeps one more record. Raises RateExceeded beyond MAX_KEPT_RECORDS: waiting might not end."""
        if len(self._sent) + len(self._unsent) >= MAX_KEPT_RECORDS:
            raise RateExceeded(
                f"{MAX_KEPT_RECORDS} messages came since a pause; send more audio in each", field="audio"
            )
        size_bytes = audio_bytes(record)
        self._unsent.append(_Kept(record.index, size_bytes, encode_record(record)))
        self._published.add(size_bytes)
        self._kept_bytes += size_bytes

    def next(self) -> bytes | None:
        """The envelope that the worker gets next, which counts as sent; None when it has all that it may have now."""
        if not self._begun:
            self._begun = True
            self._send(0, 0)
            return encode_record(self.opened)
        if not self._unsent or not self._at_worker.fits(self._unsent[0].size_bytes):
            return None
        kept = self._unsent.popleft()
        self._sent.append(kept)
        self._send(kept.index, kept.size_bytes)
        return kept.envelope

    def settle(self, size_bytes: int) -> None:
        """The worker has processed the oldest record it has. Raises BadRequest when it never had so much."""
        if not self._unsettled or size_bytes > self._at_worker.unsettled_bytes:
            raise BadRequest("a worker settled what it never had", field="settle")
        self._unsettled.popleft()
        self._at_worker.settle(size_bytes)
        self._published.settle(size_bytes)

    def trim(self, checkpoint: Checkpoint) -> None:
        """Forgets what lies before the checkpoint; an older one than the last changes nothing.

        Raises BadRequest for one beyond what the worker has got.
        """
        last = self.opened.checkpoint
        if last is not None and (checkpoint.index, checkpoint.skip_bytes) < (last.index, last.skip_bytes):
            return
        reached = self._sent[-1].index + 1 if self._sent else last.index if last is not None else 1
        if not self._begun or checkpoint.index > reached:
            raise BadRequest("a checkpoint lies beyond what its worker has got", field="checkpoint")
        while self._sent and self._sent[0].index < checkpoint.index:
            self._kept_bytes -= self._sent.popleft().size_bytes
        self.opened = replace(self.opened, checkpoint=checkpoint)

    def rewind(self) -> None:
        """Another worker begins: everything since the checkpoint is unsent and unsettled again."""
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self._unsettled.clear()
        self._begun = False
        self._at_worker.begin()
        self._published.begin(self._kept_bytes, len(self._unsent) + 1)

    def check_integrity(self) -> None:
        """Kept = sent + unsent, in order and within its bound; unsettled = unsent + what the worker has."""
        kept = [*self._sent, *self._unsent]
        ensure(self._kept_bytes == sum(record.size_bytes for record in kept), "kept = sent + unsent")
        ensure(all(a.index < b.index for a, b in pairwise(kept)), "in order, each once")
        ensure(len(kept) <= MAX_KEPT_RECORDS, "records are bounded")
        last_audio = next((record.size_bytes for record in reversed(kept) if record.size_bytes), 0)
        ensure(
            self.behind_bytes - last_audio <= self._max_behind_bytes, "the replay is bounded, but for its last audio"
        )
        ensure(len(self._unsettled) == self._at_worker.unsettled_records, "each unsettled record has an index")
        unsent_bytes = sum(record.size_bytes for record in self._unsent)
        ensure(
            self._published.unsettled_bytes == unsent_bytes + self._at_worker.unsettled_bytes,
            "unsettled = unsent + at the worker",
        )
        self._published.check_integrity()
        self._at_worker.check_integrity()

    def _send(self, index: int, size_bytes: int) -> None:
        self._unsettled.append(index)
        self._at_worker.add(size_bytes)
