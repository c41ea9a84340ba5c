"""Whom a gateway lets in: tenants' quotas, how fast they begin sessions, whether audio has room, and the load."""

import asyncio

from streamscribe.core.admission import SessionQuota, SessionRate
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure
from streamscribe.core.options import SessionOptions
from streamscribe.core.standstill import Standstill, given_up
from streamscribe.gateway.door import Admission
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Tenant, Ticket
from streamscribe.settings import LimitSettings


class Admittance:
    """This gateway's own books of its sessions' places, with the door's before them; nothing here waits for anybody."""

    def __init__(self, limits: LimitSettings, door: Admission) -> None:
        self._quota = SessionQuota(limits.max_sessions)
        self._rate = SessionRate()
        self._max_new_per_min = limits.max_new_sessions_per_min
        self._standstill = Standstill()
        self._patience_s, self._patience_with_files_s = limits.finalize_timeout_s, limits.max_session_s
        self._door = door

    def enter(self, tenant: Tenant, options: SessionOptions, bus_id: SessionId) -> StreamScribeError | None:
        """Counts a new session, or says why it is not let in and counts nothing."""
        if over := self._quota.admit(tenant.tenant_id, tenant.max_sessions):
            return over
        now = asyncio.get_running_loop().time()
        refusal: StreamScribeError | None = self._rate.refusal(
            tenant.tenant_id, tenant.max_new_sessions_per_min or self._max_new_per_min, now
        )
        if options.live:
            refusal = refusal or self._standstill.refusal(self._quota.total - 1, now)
        refusal = refusal or self._door.admit(options, bus_id, tenant.tenant_id, yields=tenant.yields)
        if refusal is not None:
            self._quota.release(tenant.tenant_id)
            return refusal
        self._rate.begin(tenant.tenant_id, now)
        return None

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

    def stay_away(self, tenant: Tenant, ticket: Ticket | None) -> None:
        """One that was expected does not come; with its ticket, if its load was counted."""
        self._quota.release(tenant.tenant_id)
        if ticket is not None:
            self._door.release(ticket.opened.options, ticket.session_id)

    def leave(self, live: LiveSession) -> None:
        """A session is not here any more."""
        self._quota.release(live.tenant.tenant_id)
        self._door.release(live.admitted, live.bus_id)
        self._standstill.go_on(live.bus_id)

    def stops(self, live: LiveSession, waited_s: float) -> bool:
        """What it has said has no room on the bus, for so long; whether its client is to be told. Too long ends it."""
        is_live = live.admitted.live  # files come as fast as workers take them
        if error := given_up(waited_s, self._patience_s if is_live else self._patience_with_files_s):
            live.break_down(error)
            return False
        return is_live and self._standstill.stop(live.bus_id, asyncio.get_running_loop().time())

    def goes_on(self, live: LiveSession) -> None:
        """What it has said had room at once."""
        self._standstill.go_on(live.bus_id)

    def check_integrity(self, here: int) -> None:
        """The equations of the books, which count so many sessions."""
        ensure(self._quota.total == here, "places == sessions that are here or expected")
        self._quota.check_integrity()
        self._rate.check_integrity()
