"""A worker process as the gateway's end sees it: its link, its sessions, and whose turn it is to send."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from streamscribe.bus.local.frames import Work
from streamscribe.bus.local.link import Kind, Link
from streamscribe.bus.local.replay import ReplayLog
from streamscribe.core.errors import Draining
from streamscribe.core.ids import SessionId
from streamscribe.core.quarantine import NO_ENDS, Ends
from streamscribe.core.records import Record, SessionAbandoned
from streamscribe.wire.bus_records import encode_record

SENT_AT_ONCE = 256
"""Records sent before other work of the loop has its turn; about a millisecond."""


@dataclass(slots=True, eq=False)
class Lane:
    """One session; what waits for room, oldest first, is bounded by its publishers, who wait with it.

    `ends` are those of its workers without a checkpoint between, the last of them at record `place` or before it, when
    there were records up to `suspected_to`. `at_work`: a model of its worker may be in a step for what was settled;
    so often what was under way for it was over, `rounds`, and `last_round` is that after which it is `through`.
    """

    log: ReplayLog
    waiting: deque[tuple[Record, asyncio.Future[None]]] = field(default_factory=deque)
    member: "Member | None" = None
    queued: bool = False
    ends: Ends = NO_ENDS
    place: int = 0
    suspected_to: int = 0
    at_work: bool = False
    rounds: int = 0
    last_round: int | None = None

    @property
    def session_id(self) -> SessionId:
        """Whose it is."""
        return self.log.opened.session_id

    def ended(self) -> bool:
        """Its worker ended by itself, at what it had not settled, or in a step for what it had; whether it could."""
        log, head = self.log, self.log.head
        if head is None and not self.at_work:
            return False
        again = self.ends.count and log.at_or_before(self.place)
        self.ends = (self.ends if again else NO_ENDS).ended(head)
        self.place = log.newest if head is None else head
        self.suspected_to = log.newest
        return True

    def taken(self, member: "Member") -> None:
        """It has a worker, which has had nothing of it yet."""
        self.member = member
        self.at_work, self.rounds, self.last_round = False, 0, None

    def works(self, work: Work) -> None:
        """Its worker has said so."""
        self.at_work = work is not Work.NONE
        self.rounds += work is Work.OTHER

    def through(self) -> bool:
        """Whether nothing that could have ended its former workers can end this one.

        It has settled what there was then; and what is under way when that is first asked is over, not what comes
        later: for some, models are always at work. A round may have begun before that, the next one has all.
        """
        if not self.log.is_past(self.suspected_to):
            return False
        if self.last_round is None:
            self.last_round = self.rounds + 2
        return not self.at_work or self.rounds >= self.last_round

    def cleared(self) -> None:
        """Its workers ended by something else."""
        self.ends = NO_ENDS

    def release_waiting(self, error: Draining | None = None) -> None:
        """Frees all publishers; their records are dropped."""
        while self.waiting:
            waiter = self.waiting.popleft()[1]
            if not waiter.done():
                waiter.set_result(None) if error is None else waiter.set_exception(error)


class Member:
    """Sends the records of its sessions in turn, as far as the link and each session's log let it.

    What waits for its turn is at most each session once.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.lanes: dict[SessionId, Lane] = {}
        self.gone = False
        """Once set, it has no sessions, and nothing that it says counts."""
        self._ready: deque[Lane] = deque()
        self._sending = False  # goes on in the loop's next turn
        link.on_writable = self._send_ready

    def take(self, lane: Lane) -> None:
        """Has the session from now on; sends in the loop's next turn, so that all that are taken together share it."""
        lane.taken(self)
        self.lanes[lane.session_id] = lane
        self._queue(lane)
        self._send_later()

    def send(self, lane: Lane) -> None:
        """Sends what the session may send now, after others that wait for their turn."""
        self._queue(lane)
        if not self._sending:
            self._send_ready()

    def forget(self, lane: Lane) -> None:
        """The session is over."""
        del self.lanes[lane.session_id]
        lane.member = None

    def abandon(self, lane: Lane, record: SessionAbandoned | None = None) -> None:
        """Tells the worker, where it knows the session, that nobody wants it from there any more."""
        if lane.log.begun:
            self.link.send(Kind.RECORD, encode_record(record or SessionAbandoned(lane.session_id, 0)))

    def leave(self) -> list[Lane]:
        """Has no sessions from now on; those that it had."""
        self.gone = True
        left = list(self.lanes.values())
        self.lanes.clear()
        self._ready.clear()
        for lane in left:
            lane.member, lane.queued = None, False
        return left

    def _queue(self, lane: Lane) -> None:
        if not lane.queued:
            lane.queued = True
            self._ready.append(lane)

    def _send_later(self) -> None:
        if not self._sending:
            self._sending = True
            asyncio.get_running_loop().call_soon(self._send_ready)

    def _send_ready(self) -> None:
        self._sending = False
        for _ in range(SENT_AT_ONCE):
            if not self._ready or not self.link.writable:
                return
            lane = self._ready.popleft()
            envelope = lane.log.next() if lane.member is self else None
            if envelope is None:
                lane.queued = False
            else:
                self.link.send(Kind.RECORD, envelope)
                self._ready.append(lane)
        self._send_later()
