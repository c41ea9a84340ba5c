"""When what others depend on counts as hanging, and when a process that ended starts again."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
LONG_LIFE_S = 5.0
"""Who was ready for so long was well: the next start is soon again."""


class Restarts:
    """The pauses before one process' starts, which double while its lives are short."""

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S

    def ended(self, ready_s: float) -> float:
        """How long to wait before the next start, after a life in which it was ready for so many seconds."""
        if ready_s >= LONG_LIFE_S:
            self._pause_s = FIRST_PAUSE_S
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


class Patience:
    """How long something has shown no life. It is looked at regularly; time in which nobody looked does not count.

    So one that was not looked at, because who looks was frozen himself, is not blamed for that.
    """

    def __init__(self, look_every_s: float, now: float) -> None:
        self._most_s = 2 * look_every_s
        self._looked_at = now
        self._silent_s = 0.0

    def look(self, *, alive: bool, now: float) -> float:
        """For how many seconds there was no sign of life; `alive`: there was one since the last look."""
        looked_at, self._looked_at = self._looked_at, now
        self._silent_s = 0.0 if alive else self._silent_s + min(now - looked_at, self._most_s)
        return self._silent_s
