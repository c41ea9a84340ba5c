"""Which records brought a session's newest audio, so that another worker can begin within one of them."""

from collections import deque
from dataclasses import dataclass

from streamscribe.core.integrity import ensure
from streamscribe.core.options import Hotword


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of a session's audio: in record `index`, after `skip_bytes` of it.

    `sequence` was the last processed when that record came, `hotwords` were those that held.
    """

    index: int
    skip_bytes: int
    sequence: int
    hotwords: tuple[Hotword, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A record of audio and what held when it came; `offset` counts the session's bytes before it."""

    offset: int
    index: int
    sequence: int
    hotwords: tuple[Hotword, ...]


class InputLog:
    """The newest chunks of a session's audio, whose first one begins `offset` bytes after its beginning.

    Both methods cost the same whatever the session's age; what is kept is bounded by who forgets (law 7).
    """

    def __init__(self, offset: int = 0) -> None:
        self._end = offset
        self._chunks: deque[_Chunk] = deque()

    def __len__(self) -> int:
        return len(self._chunks)

    def add(self, index: int, size_bytes: int, sequence: int, hotwords: tuple[Hotword, ...]) -> None:
        """The next chunk has come."""
        self._chunks.append(_Chunk(self._end, index, sequence, hotwords))
        self._end += size_bytes

    def forget_before(self, offset: int) -> None:
        """Nobody will ask for an earlier byte."""
        while len(self._chunks) > 1 and self._chunks[1].offset <= offset:
            self._chunks.popleft()

    def find(self, offset: int) -> Place | None:
        """Where the byte after `offset` is; None where that is not known any more."""
        for chunk in reversed(self._chunks):
            if chunk.offset <= offset:
                return Place(chunk.index, offset - chunk.offset, chunk.sequence, chunk.hotwords)
        return None

    def check_integrity(self) -> None:
        """Chunks follow each other and end where the audio does."""
        offsets = [chunk.offset for chunk in self._chunks]
        ensure(offsets == sorted(offsets), "offsets grow")
        ensure(not offsets or offsets[-1] <= self._end, "the last chunk begins before the end")
