"""How much memory a process has, looked at all the while."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

EVERY_S = 0.05


class MemoryWatch:
    """Context manager: asks `resident_bytes` every 50 ms in a thread of its own, and keeps the highest."""

    def __init__(self, resident_bytes: Callable[[], int]) -> None:
        self._resident_bytes = resident_bytes
        self._highest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def peak(self) -> int:
        """The most bytes since the last call."""
        highest, self._highest = self._highest, 0
        return max(highest, self._resident_bytes())

    def _look(self) -> None:
        self._highest = max(self._highest, self._resident_bytes())

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            self._look()
