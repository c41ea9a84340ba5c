"""The deadlines of a session: what each stage waits for, how long, and what the waiting means when it is over."""

from enum import Enum, auto
from math import inf

from streamscribe.core.session_io import SessionLimits
from streamscribe.core.session_table import Stage
from streamscribe.core.uplink import Uplink

LATE_S = 0.5
"""Who asks so long after a deadline stood still: what did not come in time may lie unread in a socket, or in a log."""
AWAKE_S = 10.0
"""So long it is waited for then, whatever it is: audio, a resume, or finals of a worker that stood still as well."""
MAX_PUT_OFF = 3
"""So often at most for the same deadline: who is always late ends what has to end all the same."""


class Alarm(Enum):
    """What has not come in time."""

    NO_AUDIO = auto()
    IDLE = auto()
    TOO_LONG = auto()
    GAP = auto()
    NO_FINALS = auto()
    NOBODY = auto()


class SessionTimers:
    """Remembers when something last came. Each question is O(1): it is asked after every event of the session."""

    def __init__(self, limits: SessionLimits, now: float) -> None:
        self._limits = limits
        self._created_at = now
        self.heard_at = now
        """When the client last spoke, or could have spoken but for us."""
        self.progress_at = now
        """When the worker last spoke, or was told of the end."""
        self.lost_at = now
        """When the connection was lost."""
        self._awake_at = -inf
        self._put_off: tuple[float, Alarm] | None = None
        self._times_put_off = 0

    def lose(self, stage: Stage, uplink: Uplink, now: float) -> None:
        """The connection is lost. What was due long before is put off, as if that had been asked first."""
        self.due(stage, uplink, now)
        self.lost_at = now

    def come_back(self, stage: Stage, uplink: Uplink, now: float) -> None:
        """A connection is there again, so far in this stage. What was due long before is put off too; what passed while
        there was no connection is due now, and nobody was late for it."""
        self.due(stage, uplink, now)
        self.heard_at = now
        self._awake_at = max(self._awake_at, now)

    def earliest(self, stage: Stage, uplink: Uplink) -> tuple[float, Alarm] | None:
        """The next deadline of a session in this stage."""
        due = self._first(stage, uplink)
        return None if due is None else (max(due[0], self._awake_at), due[1])

    def due(self, stage: Stage, uplink: Uplink, now: float) -> Alarm | None:
        """What has not come in time. Asked long after its time, it is put off: nobody could have heard it come."""
        due = self._first(stage, uplink)
        if due is None or (late_s := now - max(due[0], self._awake_at)) < 0:
            return None
        if due != self._put_off:
            self._put_off, self._times_put_off = due, 0
        if late_s <= LATE_S or self._times_put_off == MAX_PUT_OFF:
            return due[1]
        self._times_put_off += 1
        self._awake_at = now + AWAKE_S
        return None

    def _first(self, stage: Stage, uplink: Uplink) -> tuple[float, Alarm] | None:
        return min(self._deadlines(stage, uplink), key=lambda deadline: deadline[0], default=None)

    def _deadlines(self, stage: Stage, uplink: Uplink) -> list[tuple[float, Alarm]]:
        limits = self._limits
        match stage:
            case Stage.CREATED:
                first_audio = (self._created_at + limits.first_audio_timeout_s, Alarm.NO_AUDIO)
                return [first_audio, *self._while_reading(uplink)]
            case Stage.STREAMING:
                return self._while_reading(uplink)
            case Stage.FINALIZING:
                return [(self.progress_at + limits.finalize_timeout_s, Alarm.NO_FINALS)]
            case Stage.DETACHED:
                return [(self.lost_at + limits.resume_window_s, Alarm.NOBODY)]
            case Stage.CLOSED:
                return []

    def _while_reading(self, uplink: Uplink) -> list[tuple[float, Alarm]]:
        deadlines: list[tuple[float, Alarm]] = []
        if uplink.settled:  # a client that is not read, for pace or backlog, is not idle
            idle_since = max(self.heard_at, uplink.paused_until)
            deadlines.append((idle_since + self._limits.idle_timeout_s, Alarm.IDLE))
        if uplink.options.live:  # how long a file takes is our doing
            deadlines.append((self._created_at + self._limits.max_session_s, Alarm.TOO_LONG))
        gap_at = uplink.next_timer()
        if gap_at is not None:
            deadlines.append((gap_at, Alarm.GAP))
        return deadlines
