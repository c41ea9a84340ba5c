"""A few threads for short work that must stay off the event loop, the most urgent first."""

import heapq
from collections.abc import Callable
from math import inf
from threading import Condition, Thread

_SLACK = 64
"""How many places of dropped work the line may have beside as many as there is work."""


class FrontThreads:
    """Runs what it is given by rank, then by number. Work that is dropped is let go of at once, with all it holds.

    Its line is bounded by those who fill it.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._line: list[tuple[float, int]] = []
        self._work: dict[int, Callable[[], None]] = {}
        self._changed = Condition()
        self._closed = False
        self._threads = [Thread(target=self._run, name=f"{name}-{index}", daemon=True) for index in range(threads)]

    def __len__(self) -> int:
        return len(self._work)

    def start(self) -> None:
        """Starts the threads; what comes before waits."""
        for thread in self._threads:
            thread.start()

    def run(self, rank: float, number: int, work: Callable[[], None]) -> None:
        """Has `work` run, which must not raise; lower ranks go first. `number` is its own, and grows with arrival."""
        with self._changed:
            self._work[number] = work
            heapq.heappush(self._line, (rank, number))
            self._changed.notify()

    def drop(self, number: int) -> bool:
        """Gives up work that waits; False if it was begun, or dropped before."""
        with self._changed:
            if self._work.pop(number, None) is None:
                return False
            if len(self._line) > 2 * len(self._work) + _SLACK:
                self._line = [place for place in self._line if place[1] in self._work]
                heapq.heapify(self._line)
            return True

    def close(self, timeout_s: float = inf) -> None:
        """Ends the threads after all that waits has run: blocks until then, at most `timeout_s` for each."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(None if timeout_s == inf else timeout_s)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # which may hold audio

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while True:
                while self._line:
                    _, number = heapq.heappop(self._line)
                    if (work := self._work.pop(number, None)) is not None:
                        return work
                if self._closed:
                    return None
                self._changed.wait()
