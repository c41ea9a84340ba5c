"""A session as its log tells it: what a gateway must know to go on with a session that another gateway had.

Both halves are folds over what the bus kept, in its order, from the session's opening or from a mark on. Whoever folds
the same gets the same, versions included.
"""

from dataclasses import dataclass

from streamscribe.core.downlink import Downlink
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Failed,
    Finished,
    Record,
    SessionAbandoned,
    WorkerEvent,
)
from streamscribe.core.session_io import SessionIdentity, SessionLimits
from streamscribe.core.session_mark import SessionMark


@dataclass(slots=True)
class UplinkPast:
    """The records that are in the log: what comes next, and whether anything more may come.

    May begin anywhere in a session: each record says all that is needed of those before it.
    """

    next_index: int = 0
    next_sequence: int | None = None
    received_bytes: int = 0
    ended: bool = False
    abandoned: bool = False

    def take(self, record: Record, audio_at: int, next_sequence: int | None = None) -> None:
        """The next record in the log: it has `audio_at` bytes of the session's audio before it, and chunks up to
        `next_sequence`, if there are any."""
        if isinstance(record, SessionAbandoned):
            self.abandoned = True
        if record.index < self.next_index or isinstance(record, SessionAbandoned):
            return
        self.next_index = record.index + 1
        self.received_bytes = max(self.received_bytes, audio_at)
        if next_sequence is not None:
            self.next_sequence = next_sequence
        if isinstance(record, AudioChunk):
            self.next_sequence = record.sequence + 1
            self.received_bytes = audio_at + len(record.data)
        elif isinstance(record, AudioEnded):
            self.ended = True


class SessionPast:
    """A session's log, read by a gateway that did not have it."""

    def __init__(self, identity: SessionIdentity, limits: SessionLimits, mark: SessionMark | None = None) -> None:
        """With a `mark` it is read from there on."""
        self.uplink = UplinkPast()
        self.downlink = Downlink(identity, limits, mark.downlink if mark else None)
        if mark is not None:
            up = mark.uplink
            self.uplink = UplinkPast(up.next_index, up.next_sequence, up.received_bytes, up.ended)
        self.outcome: Finished | Failed | None = None
        """How the worker ended it, if it has."""

    def hear(self, event: WorkerEvent) -> None:
        """The next event that the gateways before this one were told."""
        if self.outcome is not None:
            return
        if isinstance(event, Finished | Failed):
            self.outcome = event
            self.uplink.ended |= isinstance(event, Finished)
        else:
            self.downlink.take(event, 0)
