"""Sessions that may have ended workers, tried apart from each other until the one that does is known."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from streamscribe.bus.local.member import Lane
from streamscribe.core.ids import SessionId

HOLD_S = 2.0
"""What a worker has settled may be in a step of a model yet: it ends by that within this time, or by something else."""


class Trials:
    """Has half of the suspects at work while the others wait, then those: each end among them halves who is suspected.

    A session is cleared by a checkpoint beyond the place where its workers ended, or HOLD_S after its worker has
    settled all that there was then. Who waits is bounded by the sessions of the bus.
    """

    def __init__(self, give: Callable[[Lane], None]) -> None:
        """`give` is called with each session that is to have a worker again."""
        self._give = give
        self._waiting: deque[list[Lane]] = deque()
        self._tried: dict[SessionId, asyncio.TimerHandle | None] = {}

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting))

    @property
    def running(self) -> bool:
        """Whether one is tried now."""
        return bool(self._tried)

    def suspect(self, lanes: Sequence[Lane]) -> Lane | None:
        """A worker of these suspects ended: they are tried, but for the one that is given back, which is to blame.

        That is one whose workers ended at one place, or too often, and who was there alone, or alone on trial.
        """
        accused = [lane for lane in lanes if lane.session_id in self._tried] or lanes
        guilty = accused[0] if len(accused) == 1 and (accused[0].ends.guilty or accused[0].ends.hopeless) else None
        rest = [lane for lane in lanes if lane is not guilty]
        for lane in rest:
            self._release(lane)
        middle = (len(rest) + 1) // 2
        self._waiting.extend(half for half in (rest[:middle], rest[middle:]) if half)
        return guilty

    def got_on(self, lane: Lane) -> None:
        """Its worker settled something of it, or told a checkpoint."""
        if lane.session_id not in self._tried:
            return
        if not lane.log.at_or_before(lane.place):
            self._clear(lane)
        elif self._tried[lane.session_id] is None and lane.log.is_past(lane.suspected_to):
            loop = asyncio.get_running_loop()
            self._tried[lane.session_id] = loop.call_later(HOLD_S, self._clear, lane)

    def moved(self, lane: Lane) -> None:
        """It has another worker, by no fault of its own: where it was tried, that begins anew."""
        if lane.session_id in self._tried:
            self._release(lane)
            self._tried[lane.session_id] = None

    def over(self, lane: Lane) -> None:
        """The session is forgotten."""
        self._release(lane)
        for half in self._waiting:
            if lane in half:
                half.remove(lane)
        self.go_on()

    def go_on(self) -> None:
        """The next have workers, unless some are tried already."""
        while self._waiting and not self._tried:
            for lane in self._waiting.popleft():
                self._tried[lane.session_id] = None
                self._give(lane)

    def _clear(self, lane: Lane) -> None:
        self._release(lane)
        lane.cleared()
        self.go_on()

    def _release(self, lane: Lane) -> None:
        timer = self._tried.pop(lane.session_id, None)
        if timer is not None:
            timer.cancel()
