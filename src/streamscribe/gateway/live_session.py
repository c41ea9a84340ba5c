"""The shell of one `core.session.Session`: performs its effects, publishes in order, keeps its one timer."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from streamscribe.bus.backlog import audio_bytes
from streamscribe.core.errors import Overloaded, SessionNotFound, SessionSuperseded, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.messages import ErrorSent, Resume, SlowDown
from streamscribe.core.records import Record, SessionAbandoned, SessionOpened, WorkerEvent
from streamscribe.core.restarts import Patience
from streamscribe.core.session import Session
from streamscribe.core.session_io import (
    Abandoned,
    BrokenDown,
    ConnectionLost,
    ConnectionResumed,
    Delivered,
    Disconnect,
    Durable,
    Effect,
    GoingAway,
    Killed,
    Pace,
    Publish,
    Release,
    Send,
    SessionEvent,
    SessionIdentity,
    SessionMessage,
    Stopped,
    Tick,
)
from streamscribe.core.session_mark import SessionMark
from streamscribe.core.session_table import Stage
from streamscribe.core.standstill import SLOW_DOWN_AFTER_S
from streamscribe.gateway.session_owner import SessionOwner
from streamscribe.gateway.sink import Sink
from streamscribe.ports import GatewayBus, Seat, Tenant

MOST_READERS = 4
"""Connections, one after the other, of which a message waits: a client that comes back may bring one more each time."""


class LiveSession:
    """One session of this gateway, with or without a connection.

    Records are published one at a time in the order of their effects; while they wait for room on the bus, `receive`
    does not return, so that nothing more is read from the client. What waits is bounded by one message's effects, of
    each of the last `MOST_READERS` connections.
    """

    __slots__ = (
        "_armed",
        "_armed_at",
        "_begun",
        "_bus",
        "_loop",
        "_owner",
        "_pausing",
        "_publishing",
        "_read_at",
        "_readers",
        "_session",
        "_sink",
        "_standing",
        "_unpublished",
        "bus_id",
        "over",
        "resumable",
        "resume_token",
        "session_id",
        "spoke",
        "tenant",
        "trace_id",
    )

    def __init__(
        self,
        owner: SessionOwner,
        bus: GatewayBus,
        session: Session,
        tenant: Tenant,
        sink: Sink | None,
        *,
        identity: SessionIdentity,
        bus_id: SessionId,
        resumable: bool,
        moved_in: bool = False,
    ) -> None:
        """One that has `moved_in` had begun at another gateway."""
        self.tenant = tenant
        self.session_id = identity.session_id
        self.trace_id = identity.trace_id
        self.resume_token = identity.resume_token
        self.bus_id = bus_id
        """The id on the bus: never one that a client chose, for two tenants may choose the same."""
        self.resumable = resumable
        self.over = False
        self.spoke = moved_in
        """Whether its client has said its first word."""
        self._begun = moved_in
        self._owner = owner
        self._bus = bus
        self._session = session
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._unpublished: list[Record] = []
        self._publishing = asyncio.Lock()
        self._read_at = 0.0
        self._readers = 0
        self._pausing: asyncio.Future[None] | None = None
        self._armed: asyncio.TimerHandle | None = None
        self._armed_at = 0.0
        self._standing: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> bool:
        """Whether a sink receives the messages."""
        return self._sink is not None

    @property
    def settled(self) -> bool:
        """Whether it has its options for good, as audio was taken."""
        return self._session.stage is not Stage.CREATED

    @property
    def broken(self) -> bool:
        """Whether it failed here, and is only kept for its client to be told."""
        return self._session.broken

    @property
    def movable(self) -> bool:
        """Whether it could go on at another gateway now: the log has its first record, and it did not fail here."""
        return self._begun and self.resumable and self._bus.durability == "log" and not self.broken

    def seat(self, gateway: str) -> Seat:
        """How it stands, for the store that all gateways share."""
        session = self._session
        return Seat(
            self.bus_id,
            self.tenant.tenant_id,
            self.session_id,
            gateway,
            session.stage,
            session.received_ms,
            session.processed_ms,
        )

    def mark(self) -> SessionMark | None:
        """Where it stands in its log; None where that cannot be said just now."""
        return None if self.over or self._unpublished else self._session.mark()

    @property
    def at_endpoint(self) -> bool:
        """Whether no text is open, and more may come."""
        mark = self.mark()
        return mark is not None and not mark.uplink.ended

    def open(self) -> None:
        """Sends the first message."""
        self._perform(self._session.open(self._loop.time()))

    async def receive(self, message: SessionMessage) -> None:
        """Performs what the message asks for; returns when more may be read (backlog and pacing are back-pressure)."""
        if self.over:
            return
        if not self.spoke:
            self.spoke = True
            self._owner.spoke(self)
        self._perform(self._session.handle(message, self._loop.time()))
        self._readers += 1
        try:
            if self._unpublished:
                await self._publish_all()
            if self._read_at > self._loop.time():
                await self._pause()
        finally:
            self._readers -= 1

    def deliver(self, event: WorkerEvent) -> None:
        """Takes what the worker says."""
        self._handle(event)

    def detach(self) -> None:
        """The connection is lost; the session waits for a resume."""
        self._sink = None
        self._handle(ConnectionLost())

    def resume(self, message: Resume, sink: Sink) -> None:
        """Gives the session to another connection; one that still has it is told and closed.

        Raises SessionNotFound, and changes nothing, where the session cannot go on with what the client claims;
        Overloaded where what it said on too many connections waits still.
        """
        resumed = ConnectionResumed(message.last_version, message.last_acked_sequence)
        if not self._session.accepts(resumed):
            raise SessionNotFound
        if self._readers >= MOST_READERS:
            raise Overloaded("what was said before waits for room", retry_after_s=SLOW_DOWN_AFTER_S)
        self.supersede()
        self._sink = sink
        self._handle(resumed)

    def supersede(self) -> None:
        """Another connection has the session, or its name: one that still has it is told and closed."""
        if self._sink is not None:
            error = SessionSuperseded()
            self._sink.send(ErrorSent(error))
            self._close(error)

    def delivered(self) -> None:
        """The client has answered the close of a session that is done."""
        if self._sink is None:
            self._handle(Delivered())

    def abandon(self) -> None:
        """Nobody will come back: the session ends at once and says nothing."""
        self._sink = None
        self._handle(Abandoned())

    def stop(self, error: StreamScribeError) -> None:
        """Takes no more audio: the client gets the finals of what was taken, then the error."""
        self._handle(Stopped(error))

    def kill(self, error: StreamScribeError) -> None:
        """Ends the session with an error that the client is told if it is there."""
        self._handle(Killed(error))

    def break_down(self, error: StreamScribeError) -> None:
        """The session fails; a client that is away, or only seems to be there, is told when it comes back."""
        self._handle(BrokenDown(error))

    def let_go(self, error: StreamScribeError) -> None:
        """Ends here, not for its worker: another gateway has the session, or will. The connection is closed.

        A client whose session was taken is told; whoever is to come back elsewhere only sees the close code, and
        nothing has failed.
        """
        if self.over:
            return
        if isinstance(error, SessionSuperseded):
            self.supersede()
        self._close(error)
        self._cease()
        self._unpublished.clear()
        self._owner.left(self)

    def go_away(self, deadline_ms: int, retry_after_ms: int) -> None:
        """Tells the client to move."""
        self._handle(GoingAway(deadline_ms, retry_after_ms))

    def check_integrity(self) -> None:
        """The session's own equation."""
        self._session.check_integrity()

    def _handle(self, event: SessionEvent) -> None:
        if self.over:
            return
        self._perform(self._session.handle(event, self._loop.time()))
        if self._unpublished and not self._publishing.locked():
            self._owner.spawn(self._publish_all())

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    if self._sink is not None:
                        self._sink.send(effect.message)
                case Publish(record=SessionAbandoned() as last):  # of what waits, only this still matters
                    self._unpublished.clear()
                    self._owner.spawn(self._publish_last(last))
                case Publish():
                    self._unpublished.append(effect.record)
                case Pace():
                    self._read_at = effect.until
                case Disconnect():
                    self._close(effect.error)
                case Release():
                    self._cease()
                    self._unpublished.clear()
                    self._owner.released(self, effect.failure)
        if not self.over:
            self._arm()

    def _close(self, error: StreamScribeError | None) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close(error)

    def _arm(self) -> None:
        """Keeps a timer no later than the session's; one that comes early finds nothing to do and arms the next."""
        due = self._session.next_timer()
        if due is None or (self._armed is not None and self._armed_at <= due):
            return
        if self._armed is not None:
            self._armed.cancel()
        self._armed = self._loop.call_at(due, self._tick)
        self._armed_at = due

    def _tick(self) -> None:
        self._armed = None
        due = self._session.next_timer()
        if due is not None and due > self._loop.time():
            self._arm()
        else:
            self._handle(Tick())

    async def _publish_all(self) -> None:
        async with self._publishing:
            while self._unpublished:
                record = self._unpublished[0]
                sent = self._on_bus(record)
                try:
                    if isinstance(sent, SessionOpened):
                        await self._owner.began(self, sent)
                        if not self._unpublished:  # its end came first: the log hears of neither
                            return
                    await self._put(sent)
                    self._begun = True
                except StreamScribeError as error:
                    self.break_down(error)
                    self._unpublished.clear()
                if not self._unpublished:  # it has failed meanwhile, or is over
                    return
                del self._unpublished[0]
                self._perform(self._session.handle(Durable(record.index), self._loop.time()))

    async def _put(self, record: Record) -> None:
        """Publishes it; while it waits for room, nothing is read from the client (`core.standstill` says what else)."""
        if self._bus.room(record.session_id, audio_bytes(record)):
            self._owner.goes_on(self)
            await self._bus.publish(record)
        else:
            self._stand_still(Patience(SLOW_DOWN_AFTER_S, self._loop.time()))
            try:
                await self._bus.publish(record)
            finally:
                if self._standing is not None:
                    self._standing.cancel()

    def _stand_still(self, patience: Patience) -> None:
        if self.over:
            return
        waited_s = patience.look(alive=False, now=self._loop.time())
        if self._owner.stops(self, waited_s) and self._sink is not None:
            self._sink.send(SlowDown(resume_after_ms=round(SLOW_DOWN_AFTER_S * 1000)))
        self._standing = self._loop.call_later(SLOW_DOWN_AFTER_S, self._stand_still, patience)

    def _on_bus(self, record: Record) -> Record:
        return record if self.bus_id == self.session_id else replace(record, session_id=self.bus_id)

    async def _pause(self) -> None:
        self._pausing = pause = self._loop.create_future()
        timer = self._loop.call_at(self._read_at, _wake, pause)
        try:
            await pause
        finally:
            timer.cancel()

    def _cease(self) -> None:
        """Frees whoever waits."""
        self.over = True
        if self._armed is not None:
            self._armed.cancel()
        if self._pausing is not None:
            _wake(self._pausing)

    async def _publish_last(self, record: Record) -> None:
        with suppress(StreamScribeError):  # a bus that is closing has let go of the session anyway
            await self._bus.publish(self._on_bus(record))


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
