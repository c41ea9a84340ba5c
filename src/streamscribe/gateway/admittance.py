"""Whom a gateway lets in: tenants' quotas, how fast they begin sessions, whether audio has room, and the load."""

import asyncio
from dataclasses import replace

from streamscribe.core.admission import SessionQuota, SessionRate
from streamscribe.core.errors import Overloaded, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure
from streamscribe.core.options import SessionOptions
from streamscribe.core.standstill import Standstill, given_up
from streamscribe.gateway.door import Admission, HubObserver
from streamscribe.gateway.live_session import LiveSession
from streamscribe.observe.logs import get_logger
from streamscribe.ports import Tenant, Ticket
from streamscribe.settings import LimitSettings

STANDSTILL = "standstill"
"""Why nobody new is let in while workers do not keep up, and why a session ends of which they take nothing."""

_log = get_logger(__name__)


class Admittance:
    """This gateway's own books of its sessions' places, with the door's before them; nothing here waits for anybody.

    Each session is held to the options that it has: a start may bring other ones than it was let in with. For one event
    loop.
    """

    def __init__(self, limits: LimitSettings, door: Admission, observer: HubObserver) -> None:
        self._quota = SessionQuota(limits.max_sessions)
        self._rate = SessionRate()
        self._max_new_per_min = limits.max_new_sessions_per_min
        self._standstill = Standstill()
        self._patience_s, self._patience_with_files_s = limits.finalize_timeout_s, limits.max_session_s
        self._door = door
        self._observer = observer
        self._now = now = asyncio.get_running_loop().time
        self._carried: dict[SessionId, SessionOptions] = {}
        observer.stopped_watched(lambda: self._standstill.count(now()))

    def enter(
        self, tenant: Tenant, options: SessionOptions, bus_id: SessionId, undecided: bool
    ) -> StreamScribeError | None:
        """Counts a new session, or says why it is not let in and counts nothing.

        One that is `undecided` is a file where it could be nothing else, until it is to `choose`.
        """
        if over := self._quota.admit(tenant.tenant_id, tenant.max_sessions):
            return over
        now = self._now()
        refusal: StreamScribeError | None = self._rate.refusal(
            tenant.tenant_id, tenant.max_new_sessions_per_min or self._max_new_per_min, now
        )
        refusal = refusal or self._carry(tenant, options, bus_id)
        if undecided and isinstance(refusal, Overloaded):
            refusal = self._carry(tenant, replace(options, live=False), bus_id)
        if refusal is not None:
            self._quota.release(tenant.tenant_id)
            return refusal
        self._rate.begin(tenant.tenant_id, now)
        return None

    def choose(self, live: LiveSession, options: SessionOptions) -> StreamScribeError | None:
        """A session is to have these options from now on; why its load cannot be carried so, and is counted no more."""
        before = self._carried[live.bus_id]
        if (options.live, options.audio.channels) == (before.live, before.audio.channels):
            return None
        self._put_down(live.bus_id)
        return self._carry(live.tenant, options, live.bus_id)

    def _carry(self, tenant: Tenant, options: SessionOptions, bus_id: SessionId) -> StreamScribeError | None:
        refusal: StreamScribeError | None = None
        if options.live and (refusal := self._standstill.refusal(self._quota.total - 1, self._now())) is not None:
            self._observer.session_shed(STANDSTILL)
        refusal = refusal or self._door.admit(options, bus_id, tenant.tenant_id, yields=tenant.yields)
        if refusal is None:
            self._carried[bus_id] = options
        return refusal

    def _put_down(self, bus_id: SessionId) -> None:
        if (options := self._carried.pop(bus_id, None)) is not None:
            self._door.release(options, bus_id)

    def take_back(self, tenant: Tenant) -> None:
        """A session that is over does not count as one that its tenant began."""
        self._rate.take_back(tenant.tenant_id)

    def expect(self, tenant: Tenant) -> StreamScribeError | None:
        """Counts one that another gateway has. It has a place of the tenant's already, wherever it is."""
        return self._quota.admit(tenant.tenant_id, None)

    def come(self, ticket: Ticket) -> None:
        """The load of one that was expected. Raises why it cannot be carried here."""
        opened = ticket.opened
        if busy := self._door.admit(opened.options, ticket.session_id, opened.tenant_id, resumes=True):
            raise busy
        self._carried[ticket.session_id] = opened.options

    def stay_away(self, tenant: Tenant, ticket: Ticket | None) -> None:
        """One that was expected does not come; with its ticket, if its load was counted."""
        self._quota.release(tenant.tenant_id)
        if ticket is not None:
            self._put_down(ticket.session_id)

    def leave(self, live: LiveSession) -> None:
        """A session is not here any more."""
        self._quota.release(live.tenant.tenant_id)
        self._put_down(live.bus_id)
        self._standstill.go_on(live.bus_id)

    def stops(self, live: LiveSession, waited_s: float) -> bool:
        """What it has said has no room on the bus, for so long; whether its client is to be told. Too long ends it."""
        is_live = self._carried[live.bus_id].live  # files come as fast as workers take them
        if error := given_up(waited_s, self._patience_s if is_live else self._patience_with_files_s):
            names = {"tenant_id": live.tenant.tenant_id, "session_id": live.session_id, "trace_id": live.trace_id}
            _log.warning("session given up", code=error.code, reason=STANDSTILL, seconds=round(waited_s), **names)
            live.break_down(error)
            return False
        return is_live and self._standstill.stop(live.bus_id, self._now())

    def goes_on(self, live: LiveSession) -> None:
        """What it has said had room at once."""
        self._standstill.go_on(live.bus_id)

    def check_integrity(self, here: int) -> None:
        """The equations of the books, which count so many sessions."""
        ensure(self._quota.total == here, "places == sessions that are here or expected")
        ensure(len(self._carried) <= here, "whose load is counted has a place")
        self._quota.check_integrity()
        self._rate.check_integrity()
