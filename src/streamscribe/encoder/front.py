"""A few threads for short work that must stay off the event loop, the most urgent first."""

from collections.abc import Callable
from itertools import count
from math import inf
from queue import PriorityQueue
from threading import Thread

_END = inf


class FrontThreads:
    """Runs what it is given by rank, then by arrival. Its queue is bounded by those who fill it."""

    def __init__(self, threads: int, name: str) -> None:
        self._work: PriorityQueue[tuple[float, int, Callable[[], None] | None]] = PriorityQueue()
        self._ids = count()
        self._threads = [Thread(target=self._run, name=f"{name}-{index}", daemon=True) for index in range(threads)]

    def start(self) -> None:
        """Starts the threads; what comes before waits."""
        for thread in self._threads:
            thread.start()

    def run(self, rank: float, work: Callable[[], None]) -> None:
        """Has `work` run, which must not raise; lower ranks go first."""
        self._work.put((rank, next(self._ids), work))

    def close(self) -> None:
        """Ends the threads after all that waits has run: blocks until then."""
        for _ in self._threads:
            self._work.put((_END, next(self._ids), None))
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self) -> None:
        while (work := self._work.get()[2]) is not None:
            work()
            del work  # which may hold audio
