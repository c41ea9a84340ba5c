"""When a process that ended starts again: soon, and ever later while it does not live long."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
LONG_LIFE_S = 60.0
"""Who lived so long was well: the next start is soon again."""


class Restarts:
    """The pauses before one process' starts, which double while its lives are short."""

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S
        self.count = 0
        """How often it ended."""

    def ended(self, lived_s: float) -> float:
        """How long to wait before the next start, after a life of so many seconds."""
        self.count += 1
        if lived_s >= LONG_LIFE_S:
            self._pause_s = FIRST_PAUSE_S
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s
