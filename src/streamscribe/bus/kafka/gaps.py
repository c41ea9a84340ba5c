"""Records that come before others that lie in front of them in the log: those are asked for again first."""

import time
from collections.abc import Callable
from dataclasses import dataclass

PATIENCE_S = 2.0
"""For which a gap is read again. What is not there then never will be: retention has dropped it."""

Where = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class _Track:
    """The offset that is next, and since when what comes lies behind it."""

    next: int
    behind_since: float | None = None


class Gaps:
    """What is read of each partition, offset by offset: nothing is taken while one in front of it has not come.

    The offsets of our topics are without gaps, as nothing compacts them and no transaction marks them. But a broker may
    show a record before an earlier one, for a moment (docs/kafka.md, the test broker), and librdkafka, which never asks
    for an offset again, would pass over that for good.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tracks: dict[Where, _Track] = {}
        self._behind: set[Where] = set()
        self.missing = 0
        """Records that the log does not have."""

    def begin(self, where: Where, offset: int) -> None:
        """The partition is read from an offset on."""
        self._tracks[where] = _Track(offset)
        self._behind.discard(where)

    def end(self, where: Where) -> None:
        """The partition is not read any more."""
        self._tracks.pop(where, None)
        self._behind.discard(where)

    def takes(self, where: Where, offset: int) -> bool:
        """Whether the record that has come is in turn. Of one that is not nothing is kept: it comes again.

        The first record of a partition that has not begun is. What has come before is in turn too.
        """
        track = self._tracks.setdefault(where, _Track(offset))
        if offset > track.next:
            if where in self._behind:
                return False
            now = self._clock()
            if track.behind_since is None:
                track.behind_since = now
            if now < track.behind_since + PATIENCE_S:
                self._behind.add(where)
                return False
            self.missing += offset - track.next
        track.next, track.behind_since = offset + 1, None
        return True

    def behind(self) -> dict[Where, int]:
        """The partitions that are to be read again, and from where."""
        return {where: self._tracks[where].next for where in self._behind}

    def gone_back(self, where: Where) -> None:
        """What comes of the partition now begins there."""
        self._behind.discard(where)
