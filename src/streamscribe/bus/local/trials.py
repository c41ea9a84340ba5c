"""Sessions that may have ended workers, tried apart from each other until the one that does is known."""

from collections import deque
from collections.abc import Callable, Sequence

from streamscribe.bus.local.member import Lane
from streamscribe.core.ids import SessionId
from streamscribe.core.quarantine import NO_ENDS

MOST_ENDS = 6
"""On the way from one checkpoint, the last of them on trial: beyond it nobody else is harmed to learn the place."""


class Trials:
    """Has half of the suspects at work while the others wait, then those: each end among them halves who is suspected.

    A session is cleared by a checkpoint beyond the place where its workers ended, or when its worker is through with
    all that there was then (`Lane.through`). Who waits is bounded by the sessions of the bus.
    """

    def __init__(self, give: Callable[[Lane], None]) -> None:
        """`give` is called with each session that is to have a worker again."""
        self._give = give
        self._waiting: deque[list[Lane]] = deque()
        self._tried: set[SessionId] = set()

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting))

    @property
    def running(self) -> bool:
        """Whether one is tried now."""
        return bool(self._tried)

    def suspect(self, lanes: Sequence[Lane], *, killed: bool) -> Lane | None:
        """A worker of these suspects ended: they are tried, but for the one that is given back, which is to blame.

        That is one whose workers ended at one place, or too often, and who was there alone on trial. Unless the worker
        was `killed`, perhaps by none of them, who was the only one there needs no trial.
        """
        on_trial = [lane for lane in lanes if lane.session_id in self._tried]
        accused = on_trial if on_trial or killed else lanes
        ends = accused[0].ends if len(accused) == 1 else NO_ENDS
        guilty = accused[0] if ends.guilty or ends.count >= MOST_ENDS else None
        rest = [lane for lane in lanes if lane is not guilty]
        self._tried.difference_update(lane.session_id for lane in rest)
        middle = (len(rest) + 1) // 2
        self._waiting.extend(half for half in (rest[:middle], rest[middle:]) if half)
        return guilty

    def got_on(self, lane: Lane) -> None:
        """Its worker settled something of it, told a checkpoint, or says what models are at for it."""
        if lane.session_id not in self._tried:
            return
        if lane.through() or not lane.log.at_or_before(lane.place):
            self._tried.remove(lane.session_id)
            lane.cleared()
            self.go_on()

    def over(self, lane: Lane) -> None:
        """The session is forgotten."""
        self._tried.discard(lane.session_id)
        for half in self._waiting:
            if lane in half:
                half.remove(lane)
        self.go_on()

    def go_on(self) -> None:
        """The next have workers, unless some are tried already."""
        while self._waiting and not self._tried:
            for lane in self._waiting.popleft():
                self._tried.add(lane.session_id)
                self._give(lane)
