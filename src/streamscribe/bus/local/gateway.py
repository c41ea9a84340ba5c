"""The gateway's end of the local bus: gives each session to a worker process, and to the next one when that is gone."""

import asyncio
from collections.abc import Callable
from functools import partial

from streamscribe.bus.backlog import audio_bytes
from streamscribe.bus.local.frames import parse_settle, parse_work
from streamscribe.bus.local.link import Kind, Link
from streamscribe.bus.local.member import Lane, Member
from streamscribe.bus.local.observer import LocalBusObserver, Unobserved
from streamscribe.bus.local.replay import MIN_REPLAY_S, ReplayLog
from streamscribe.bus.local.trials import Trials
from streamscribe.core.errors import BadRequest, Draining, Quarantined, RateExceeded, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure
from streamscribe.core.records import (
    Checkpointed,
    Failed,
    Finished,
    Record,
    SessionAbandoned,
    SessionOpened,
    WorkerEvent,
)
from streamscribe.ports import EventHandler
from streamscribe.wire.bus_records import decode_event

Place = Callable[[SessionOpened], int | None]
"""Chooses the member that gets a session; None: none can, and the session waits for the next that joins."""


class LocalGatewayBus:
    """`ports.GatewayBus` over links to worker processes; durability is this process' memory.

    A record is published once its session's log has it (`ReplayLog`), whether or not a worker is there: what a worker
    does not read yet waits in the log and not in the link, so memory has the log's bound whatever a worker does.
    Cancelling a publisher leaves its record in its place. Sessions of a worker that leaves are placed again, and
    replayed from their checkpoint; publishers do not notice, but for a full backlog while nobody settles. For one event
    loop, not thread-safe.
    """

    durability = "process"

    def __init__(
        self, max_backlog_s: float, max_replay_s: float, place: Place, observer: LocalBusObserver | None = None
    ) -> None:
        """Raises ValueError for `max_replay_s` below MIN_REPLAY_S."""
        if max_replay_s < MIN_REPLAY_S:
            raise ValueError(f"max_replay_s must be at least {MIN_REPLAY_S}: the longest segment must fit")
        self._max_backlog_s = max_backlog_s
        self._max_replay_s = max_replay_s
        self._place = place
        self._observer: LocalBusObserver = observer or Unobserved()
        self._members: dict[int, Member] = {}
        self._lanes: dict[SessionId, Lane] = {}
        self._homeless: dict[SessionId, Lane] = {}
        self._trials = Trials(self._take_over)
        self._to_gateway: EventHandler | None = None
        self._closed = False

    @property
    def homeless(self) -> int:
        """Sessions that wait for a worker."""
        return len(self._homeless) + len(self._trials)

    def join(self, member: int, link: Link) -> None:
        """A worker process is ready: sessions that wait are placed now. Raises ValueError for a member that is here.

        The link stays its opener's, who closes it, and calls `leave` once it is `closed`: then all that the worker said
        has been heard.
        """
        if member in self._members:
            raise ValueError(f"member {member} has joined already")
        joined = self._members[member] = Member(link)
        link.on(Kind.RECORD, _refuse_record)
        link.on(Kind.EVENT, partial(self._on_event, joined))
        link.on(Kind.SETTLE, partial(self._on_settle, joined))
        link.on(Kind.WORK, partial(self._on_work, joined))
        for lane in list(self._homeless.values()):
            self._assign(lane)

    def leave(self, member: int, *, suspect: bool = True, killed: bool = False) -> None:
        """The worker is gone, or is to have no sessions: they are placed again and replayed. Unknown members are fine.

        What it still says is dropped and counted. `suspect`: it ended by itself, perhaps of what it was at. A session
        at whose record two such workers were fails with Quarantined, as does one whose workers end again and again on
        the way from one checkpoint; where it may have been another, or chance, it is tried apart (`Trials`). So it is
        where the worker was `killed` from outside: by who runs it, or by the kernel, which may have been for a session.
        """
        left = self._members.pop(member, None)
        if left is None:
            return
        again = []
        for lane in left.leave():
            left.abandon(lane)
            blamed = suspect and lane.ended()
            lane.log.rewind()
            if blamed and lane.ends.suspect:
                again.append(lane)
            else:
                self._take_over(lane)
        guilty = self._trials.suspect(again, killed=killed)
        if guilty is not None:
            self._observer.quarantined(guilty.log.opened, guilty.place)
            self._fail(guilty, Quarantined())
        self._trials.go_on()

    def room(self, session_id: SessionId, size_bytes: int) -> bool:
        """Whether `publish` of so much audio would return at once."""
        lane = self._lanes.get(session_id)
        return lane is None or (not lane.waiting and lane.log.fits(size_bytes))

    async def publish(self, record: Record) -> None:
        """Keeps the record, after all earlier ones of its session, and sends it as soon as its worker may have it.

        A session with more records than are kept fails with RateExceeded. Raises Draining once the bus is closed.
        """
        if self._closed:
            raise Draining
        lane = self._lanes.get(record.session_id)
        if lane is None:
            if isinstance(record, SessionOpened):
                log = ReplayLog(record, self._max_backlog_s, self._max_replay_s)
                lane = self._lanes[record.session_id] = Lane(log)
                self._assign(lane)
        elif isinstance(record, SessionAbandoned):
            if lane.member is not None:
                lane.member.abandon(lane, record)
            self._forget(lane)
        elif not lane.waiting and lane.log.fits(audio_bytes(record)):
            self._keep(lane, record)
            if lane.member is not None:
                lane.member.send(lane)
        else:
            waiter = asyncio.get_running_loop().create_future()
            lane.waiting.append((record, waiter))
            await waiter

    def attach_gateway(self, handler: EventHandler) -> None:
        """Gives `handler` each worker event from now on."""
        self._to_gateway = handler

    async def close(self) -> None:
        """Stops delivery; publishers that wait get Draining. Links stay their owners'."""
        self._closed = True
        for lane in list(self._lanes.values()):
            lane.release_waiting(Draining())
            self._forget(lane)

    def check_integrity(self) -> None:
        """Each session is one member's or waits for one; nothing waits that would fit; each log's own equation."""
        placed = sum(len(member.lanes) for member in self._members.values())
        ensure(
            placed + self.homeless == len(self._lanes), "sessions = placed + those that wait for a worker or a trial"
        )
        ensure(not len(self._trials) or self._trials.running, "some are on trial while others wait for theirs")
        for lane in self._lanes.values():
            lane.log.check_integrity()
            ensure(not lane.waiting or not lane.log.fits(audio_bytes(lane.waiting[0][0])), "what waits has no room")

    def _assign(self, lane: Lane) -> None:
        chosen = self._place(lane.log.opened)
        member = self._members.get(chosen) if chosen is not None else None
        if member is None:
            self._homeless[lane.session_id] = lane
        else:
            self._homeless.pop(lane.session_id, None)
            member.take(lane)

    def _take_over(self, lane: Lane) -> None:
        self._observer.taken_over(lane.log.opened)
        self._assign(lane)

    def _on_settle(self, member: Member, payload: memoryview) -> None:
        session_id, size_bytes = parse_settle(payload)
        lane = member.lanes.get(session_id)
        if lane is not None:
            lane.log.settle(size_bytes)
            self._let_in(lane)
            self._trials.got_on(lane)

    def _on_work(self, member: Member, payload: memoryview) -> None:
        session_id, work = parse_work(payload)
        lane = member.lanes.get(session_id)
        if lane is not None:
            lane.works(work)
            self._trials.got_on(lane)

    def _on_event(self, member: Member, payload: memoryview) -> None:
        event = decode_event(payload)
        if member.gone:
            self._observer.fenced()
            return
        lane = member.lanes.get(event.session_id)
        if lane is None:  # it is over
            return
        if isinstance(event, Checkpointed):
            lane.log.trim(event.checkpoint)
            self._let_in(lane)
            self._trials.got_on(lane)
            return
        if isinstance(event, (Finished, Failed)):
            self._forget(lane)
        self._tell(event)

    def _tell(self, event: WorkerEvent) -> None:
        if self._to_gateway is None:
            return
        try:
            self._to_gateway(event)
        except Exception as error:  # noqa: BLE001 - the gateway's edge: its defect may not cost a worker its link
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a gateway failed to take an event", "exception": error}
            )

    def _let_in(self, lane: Lane) -> None:
        """Takes the records that waited and have room now."""
        while lane.waiting and lane.log.fits(audio_bytes(lane.waiting[0][0])):
            record, waiter = lane.waiting.popleft()
            self._keep(lane, record)
            if not waiter.done():
                waiter.set_result(None)
        if lane.member is not None:
            lane.member.send(lane)

    def _keep(self, lane: Lane, record: Record) -> None:
        try:
            lane.log.append(record)
        except RateExceeded as error:  # without this record the session could not be told again
            self._fail(lane, error)

    def _fail(self, lane: Lane, error: StreamScribeError) -> None:
        if lane.member is not None:
            lane.member.abandon(lane)
        self._forget(lane)
        self._tell(Failed(lane.session_id, error))

    def _forget(self, lane: Lane) -> None:
        session_id = lane.session_id
        del self._lanes[session_id]
        self._homeless.pop(session_id, None)
        if lane.member is not None:
            lane.member.forget(lane)
        lane.release_waiting()
        self._observer.over(session_id)
        self._trials.over(lane)


def _refuse_record(payload: memoryview) -> None:
    raise BadRequest("a worker sends no records", field="frame")
