"""All sessions of this gateway: opens them within quotas, finds them again for a resume, brings events to them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields
from secrets import compare_digest, token_hex, token_urlsafe
from typing import Any, NoReturn

from streamscribe.core.errors import (
    BusUnavailable,
    LeaseLost,
    SessionNotFound,
    SessionSuperseded,
    StreamScribeError,
)
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.integrity import ensure
from streamscribe.core.messages import Resume
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Failed, SessionOpened, WorkerEvent
from streamscribe.core.session import Session
from streamscribe.core.session_io import SessionIdentity, SessionLimits, TenantTexts
from streamscribe.gateway.admittance import Admittance
from streamscribe.gateway.door import Admission, HubObserver, going_down, random_id
from streamscribe.gateway.leaving import Leaving
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.register import Moved, NoRegister, Register
from streamscribe.gateway.sink import Sink
from streamscribe.gateway.spool import FilePlaces
from streamscribe.observe.logs import get_logger
from streamscribe.ports import GatewayBus, Tenant, Ticket
from streamscribe.settings import LimitSettings

_log = get_logger(__name__)

LAST_WORDS_S = 1.0
"""For the store, and for the bus, of a gateway that ends."""


class Hub:
    """The registry of live sessions. A session of another tenant looks like one that does not exist."""

    def __init__(
        self,
        bus: GatewayBus,
        limits: LimitSettings,
        observer: HubObserver,
        admission: Admission,
        register: Register | None = None,
        new_id: Callable[[TenantId], SessionId] = random_id,
    ) -> None:
        """`new_id` names new sessions on the bus."""
        self._new_id = new_id
        self._bus = bus
        self._register = register or NoRegister()
        self._limits = SessionLimits(**{field.name: getattr(limits, field.name) for field in fields(SessionLimits)})
        self._places = Admittance(limits, admission, observer)
        self._observer = observer
        self._sessions: dict[tuple[str, str], LiveSession] = {}
        self._by_bus_id: dict[SessionId, LiveSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._moving: set[tuple[str, str]] = set()
        self.files = FilePlaces(limits.max_files)
        """Places of those sessions that are files."""
        self.takes_over = bus.durability == "log"
        """Whether sessions of other gateways may come here."""
        self._leaving = Leaving(self._register, moves=self.takes_over)
        self.draining = False
        """Once set, no session is opened; those that are here can still be resumed."""
        bus.attach_gateway(self.deliver)

    def __len__(self) -> int:
        """Sessions open now."""
        return len(self._sessions)

    def open(
        self,
        tenant: Tenant,
        options: SessionOptions,
        sink: Sink,
        *,
        session_id: SessionId | None = None,
        resumable: bool = False,
        undecided: bool = False,
    ) -> LiveSession:
        """A new session, whose first message `sink` has got. Raises QuotaExceeded, Overloaded, Draining or
        ModelUnavailable, before any work.

        `session_id` must not be known (`is_known`); without one, a fresh id is made. One that is `resumable` is
        kept after its end until its sink calls `delivered`, or for the resume window. One that is `undecided` may be
        a file: what it is, its start says (`choose`), and no load keeps it out before.
        """
        bus_id = self._new_id(tenant.tenant_id)
        refusal = going_down() if self.draining else self._places.enter(tenant, options, bus_id, undecided)
        if refusal is not None:
            self._refuse(tenant, refusal)
        identity = SessionIdentity(
            session_id=session_id or bus_id,
            tenant_id=tenant.tenant_id,
            trace_id=TraceId(token_hex(16)),
            resume_token=f"{bus_id}.{token_urlsafe(24)}",  # so that other gateways find it too
            durability=self._bus.durability,
            weight=tenant.weight,
        )
        session = Session(
            identity,
            self._limits,
            options,
            now=asyncio.get_running_loop().time(),
            lingers=resumable,
            texts=TenantTexts(tenant.hotwords, tenant.policy, tenant.zero_retention),
        )
        live = LiveSession(
            self,
            self._bus,
            session,
            tenant,
            sink,
            identity=identity,
            bus_id=bus_id,
            resumable=resumable,
        )
        self._admit(live)
        live.open()
        return live

    def choose(self, live: LiveSession, options: SessionOptions) -> None:
        """Its start is about to bring options, others perhaps than it was let in with. Raises what `open` raises for
        the load; then it is over, has told nobody, and does not count as one that its tenant began."""
        refusal = None if live.settled else self._places.choose(live, options)
        if refusal is not None:
            self.withdraw(live)
            self._refuse(live.tenant, refusal)

    def _refuse(self, tenant: Tenant, refusal: StreamScribeError) -> NoReturn:
        self._observer.session_refused(refusal)
        _log.info("session refused", tenant_id=tenant.tenant_id, code=refusal.code)
        raise refusal

    def withdraw(self, live: LiveSession) -> None:
        """It has not begun, and its client wants another one: it does not count as one that its tenant began."""
        live.abandon()
        self._places.take_back(live.tenant)

    async def resume_anywhere(self, tenant: Tenant, message: Resume, sink: Sink) -> LiveSession:
        """The session that `message` proves its right to, now with `sink`, wherever it was; an older connection of it
        is closed.

        Raises SessionNotFound, the same for an unknown id, another tenant's, a wrong token, and claims by which it
        cannot go on; StoreUnavailable, BusUnavailable and what `open` raises where one cannot be brought here now.
        Refused claims cost an older connection here nothing. One at another gateway is closed by who has the token and
        claims more than was ever sent: that only the log tells, when the session is here; it then waits for its client.
        """
        try:
            while (live := self._here(tenant, message)) is not None:
                moved = await self._register.has_moved(live)
                if live.over:  # was let go meanwhile: it is elsewhere, or here again
                    continue
                if not moved:
                    live.resume(message, sink)
                    self._leaving.came(live)
                    return live
                live.let_go(SessionSuperseded())
            return await self._bring_here(tenant, message, sink)
        except StreamScribeError as error:
            self._observer.session_refused(error)
            raise

    def _here(self, tenant: Tenant, message: Resume) -> LiveSession | None:
        """The session of this token. One of its name that has begun keeps others from coming here."""
        live = self.session(tenant.tenant_id, message.session_id)
        token = live.resume_token if live is not None else "-" * 32
        if compare_digest(token.encode(), message.resume_token.encode()):
            return live
        self._not_begun(tenant, message.session_id)
        return None

    def _not_begun(self, tenant: Tenant, session_id: str) -> LiveSession | None:
        """Who holds the name and has said nothing yet; raises SessionNotFound where it has."""
        live = self.session(tenant.tenant_id, session_id)
        if live is not None and live.spoke:
            raise SessionNotFound
        return live

    async def _bring_here(self, tenant: Tenant, message: Resume, sink: Sink) -> LiveSession:
        key = (tenant.tenant_id, message.session_id)
        if key in self._moving:
            raise BusUnavailable("the session is moving already", retry_after_s=1.0)
        self._moving.add(key)
        try:
            return await self._take_over(tenant, message, sink)
        finally:
            self._moving.discard(key)

    async def _take_over(self, tenant: Tenant, message: Resume, sink: Sink) -> LiveSession:
        if refusal := going_down() if self.draining else self._places.expect(tenant):
            raise refusal
        counted: Ticket | None = None

        def admit(ticket: Ticket) -> None:
            nonlocal counted
            other = self._not_begun(tenant, message.session_id)
            self._places.come(ticket)
            counted = ticket
            if other is not None:
                other.supersede()
                other.abandon()

        try:
            moved = await self._register.take_over(tenant, message, self._limits, admit)
        except BaseException:
            self._places.stay_away(tenant, counted)
            raise
        live = self._moved_in(tenant, moved)
        self._admit(live)
        _log.info("session taken over", gateways=len(moved.ticket.places), **_attributes(live))
        if self._leaving.at_once:
            live.let_go(LeaseLost())
            raise LeaseLost
        try:
            live.resume(message, sink)
        finally:  # it is here, whatever its client claims
            self._register.took_over(live, moved)
            self._leaving.came(live)
        return live

    def _moved_in(self, tenant: Tenant, moved: Moved) -> LiveSession:
        options, bus_id = moved.ticket.opened.options, moved.ticket.session_id
        session = Session(
            moved.identity,
            self._limits,
            options,
            now=asyncio.get_running_loop().time(),
            lingers=True,
            texts=TenantTexts(tenant.hotwords, tenant.policy, tenant.zero_retention),
            past=moved.past,
        )
        return LiveSession(
            self,
            self._bus,
            session,
            tenant,
            None,
            identity=moved.identity,
            bus_id=bus_id,
            resumable=True,
            moved_in=True,
        )

    def _admit(self, live: LiveSession) -> None:
        self._sessions[live.tenant.tenant_id, live.session_id] = live
        self._by_bus_id[live.bus_id] = live
        self._empty.clear()
        self._observer.session_opened(live.tenant.tenant_id)

    def is_known(self, tenant: Tenant, session_id: str) -> bool:
        """Whether the tenant has a session of this id here, with or without a connection, or one is on its way here."""
        key = (tenant.tenant_id, session_id)
        return key in self._sessions or key in self._moving

    def session(self, tenant_id: str, session_id: str) -> LiveSession | None:
        """A session by its tenant and id."""
        return self._sessions.get((tenant_id, session_id))

    def sessions(self) -> list[LiveSession]:
        """All that are open now."""
        return list(self._sessions.values())

    def deliver(self, event: WorkerEvent) -> None:
        """Brings a worker's event to its session; events of sessions that are over are dropped."""
        live = self._by_bus_id.get(event.session_id)
        if live is None:
            return
        if isinstance(event, Failed) and isinstance(event.error, SessionSuperseded):  # the bus says so, no worker
            live.let_go(event.error)
        else:
            live.deliver(event)
            self._register.heard(live)
            self._leaving.heard(live)

    def go_away(self, deadline_s: float) -> None:
        """Tells each client to move within that time, those too that come yet (`Leaving.begin`)."""
        self._leaving.begin(self.sessions(), deadline_s)

    async def let_all_go(self, within_s: float) -> None:
        """Closes the connections of sessions that can go on at another gateway, those too that are on their way here.

        The others stay. For those that nobody could find, so much time is spent on changing that.
        """
        await self._leaving.make_ready(within_s)
        for live in self.sessions():
            self._leaving.leave(live)

    def stop_all(self, error: StreamScribeError) -> None:
        """Lets no session take more audio; each ends with its finals and `error`."""
        for live in self.sessions():
            live.stop(error)

    def kill_all(self, error: StreamScribeError) -> None:
        """Ends every session with `error`, at once."""
        for live in self.sessions():
            live.kill(error)

    async def wait_empty(self) -> None:
        """Returns when no session is open."""
        await self._empty.wait()

    async def close(self) -> None:
        """Lets go of what can go on elsewhere, ends what is left, and waits for what is still being published."""
        self.draining = True
        await self.let_all_go(LAST_WORDS_S)
        self.kill_all(going_down())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)

    def check_integrity(self) -> None:
        """Registry, bus index and quota count the same sessions; those on their way here have only quota."""
        ensure(len(self._sessions) == len(self._by_bus_id), "registry == index")
        ensure(self._empty.is_set() == (not self._sessions), "empty == no sessions")
        self._places.check_integrity(len(self._sessions) + len(self._moving))
        for live in self._sessions.values():
            live.check_integrity()

    def released(self, live: LiveSession, failure: StreamScribeError | None) -> None:
        """Forgets the session and frees its quota; counts and logs that it failed, if it did."""
        self._forget(live)
        self._register.over(live)
        if failure is not None:
            self._observer.session_failed(failure)
            _log.info("session failed", code=failure.code, **_attributes(live))
        elif live.spoke:
            _log.info("session over", **_attributes(live))

    def left(self, live: LiveSession) -> None:
        """The same, but it is not over."""
        self._forget(live)
        self._register.left(live)
        _log.info("session left to another gateway", **_attributes(live))

    def spoke(self, live: LiveSession) -> None:
        """Writes it into the books that gateways share; with its first record, more. Logs tell of it from here on: who
        resumes a session of another gateway had one before, of another trace, and has withdrawn it."""
        _log.info("session opened", **_attributes(live))
        self._register.spoke(live)

    async def began(self, live: LiveSession, opened: SessionOpened) -> None:
        """Writes it into the books that gateways share."""
        await self._register.began(live, opened)

    def _forget(self, live: LiveSession) -> None:
        del self._sessions[live.tenant.tenant_id, live.session_id]
        del self._by_bus_id[live.bus_id]
        self._leaving.forget(live)
        self._places.leave(live)
        self._observer.session_released(live.tenant.tenant_id)
        if not self._sessions:
            self._empty.set()

    def stops(self, live: LiveSession, waited_s: float) -> bool:
        """What it has said has no room on the bus, for so long; whether its client is to be told. Too long ends it."""
        return self._places.stops(live, waited_s)

    def goes_on(self, live: LiveSession) -> None:
        """What it has said had room at once."""
        self._places.goes_on(live)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that outlives its caller; the hub owns it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _attributes(live: LiveSession) -> dict[str, str]:
    return {"tenant_id": live.tenant.tenant_id, "session_id": live.session_id, "trace_id": live.trace_id}
