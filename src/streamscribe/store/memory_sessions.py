"""Sessions of one process: the store of who runs no cluster, and of the simulation, with its time."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import LeaseLost
from streamscribe.core.ids import LeaseEpoch, SessionId, TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.lease import Lease, LeaseTable
from streamscribe.core.records import SessionOpened
from streamscribe.core.session_view import SessionPage, SessionView
from streamscribe.ports import Kept, Place, Seat, StoreCounts, Ticket
from streamscribe.store.quota import seats_taken, too_many_a_minute

MINUTE_S = 60.0


@dataclass(slots=True)
class _Known:
    """One session: what its worker saved, and what its gateway told."""

    since: float
    kept_until: float
    first_epoch: LeaseEpoch | None = None
    opened: SessionOpened | None = None
    checkpoint: Checkpoint | None = None
    saved_at: float | None = None
    seat: Seat | None = None
    ticket: Ticket | None = None
    told_at: float | None = None


@dataclass(slots=True)
class _Tenant:
    """Ends of its sessions' seats, and when the last ones began: at most as many as may in a minute."""

    seats: dict[SessionId, float] = field(default_factory=dict)
    entries: deque[float] = field(default_factory=deque)


class MemorySessions:
    """`ports.SessionStore` in memory, never unavailable; `clock` is the store's time and its callers'."""

    def __init__(
        self, *, lease_ttl_s: float, seat_ttl_s: float, keep_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        ensure(lease_ttl_s < keep_s, "a session is kept for longer than a lease")
        self._leases = LeaseTable(lease_ttl_s)
        self._seat_ttl_s = seat_ttl_s
        self._keep_s = keep_s
        self._clock = clock
        self._known: dict[SessionId, _Known] = {}  # by their ends: who is spoken of goes to the end
        self._tenants: dict[TenantId, _Tenant] = {}
        self._fenced = 0

    async def claim(self, session_id: SessionId, owner: str) -> Lease:
        """A lease; raises LeaseLost while another's is in force."""
        now = self._now()
        lease = self._leases.acquire(session_id, owner, now)
        if lease is None:
            held = self._leases.newest(session_id)
            raise LeaseLost(retry_after_s=held.expires_at - now if held else 0.0)
        known = self._touch(session_id, now)
        known.first_epoch = known.first_epoch or lease.epoch
        return lease

    async def renew(self, leases: Sequence[Lease]) -> list[Lease | None]:
        """Each lease with a later end, or None."""
        now = self._now()
        renewed = [self._leases.renew(lease, now) for lease in leases]
        for lease in renewed:
            if lease is not None:
                self._touch(lease.session_id, now)
        return renewed

    async def release(self, lease: Lease) -> None:
        """Ends the lease, if it is in force."""
        self._leases.release(lease, self._now())

    async def save(
        self, lease: Lease, *, opened: SessionOpened | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        """Keeps what another owner needs; raises LeaseLost."""
        now = self._now()
        self._fence(lease)
        known = self._touch(lease.session_id, now)
        if opened is not None:
            known.opened = replace(opened, checkpoint=None)
        if checkpoint is not None:
            if known.checkpoint is None or _place(checkpoint) > _place(known.checkpoint):
                known.checkpoint = checkpoint
                self._leases.got_on(lease.session_id)
            known.saved_at = now

    async def load(self, session_id: SessionId) -> SessionOpened | None:
        """What was saved."""
        self._now()
        known = self._known.get(session_id)
        if known is None or known.opened is None:
            return None
        return replace(known.opened, checkpoint=known.checkpoint)

    async def note(self, lease: Lease, place: int | None) -> None:
        """Notes where the owner is, or that it is at no place and the session got on; raises LeaseLost."""
        self._now()
        self._fence(lease)
        if place is None:
            self._leases.got_on(lease.session_id)
        self._leases.note(lease, place)

    async def abandon(self, leases: Sequence[Lease], after_s: float) -> list[bool]:
        """Which sessions no gateway has told of for so long."""
        now = self._now()
        return [self._abandon(lease, now - after_s) for lease in leases]

    async def forget(self, lease: Lease) -> None:
        """The session is over for its worker; raises LeaseLost."""
        self._now()
        self._fence(lease)
        self._leases.forget(lease.session_id)
        known = self._known[lease.session_id]
        known.first_epoch = known.opened = known.checkpoint = known.saved_at = None
        self._drop(lease.session_id, known)

    async def enter(self, seat: Seat, *, max_sessions: int, max_per_minute: int | None = None) -> None:
        """Takes a seat; raises QuotaExceeded."""
        now = self._now()
        if not self._is_of(seat):
            return
        seats = self._seats(seat.tenant_id, now)
        if seat.session_id not in seats:
            if len(seats) >= max_sessions:
                raise seats_taken()
            if max_per_minute is not None:
                self._count_entry(self._tenants[seat.tenant_id].entries, max_per_minute, now)
        self._sit(seat, now)

    async def keep(self, seats: Sequence[Seat]) -> list[Kept]:
        """Keeps seats; what became of each."""
        now = self._now()
        return [self._keep(seat, now) for seat in seats]

    async def leave(self, seat: Seat) -> None:
        """Frees the seat, unless another gateway has the session."""
        now = self._now()
        if not self._is_of(seat):
            return
        self._seats(seat.tenant_id, now).pop(seat.session_id, None)
        known = self._known.get(seat.session_id)
        if known is not None:
            known.seat = known.told_at = known.ticket = None
            self._drop(seat.session_id, known)

    async def hand_in(self, ticket: Ticket) -> None:
        """Keeps a session's ticket, unless it has moved."""
        known = self._touch(ticket.session_id, self._now())
        had = known.ticket
        if had is None or (len(had.places) == 1 and had.gateway == ticket.gateway):
            known.ticket = ticket

    async def ticket(self, session_id: SessionId) -> Ticket | None:
        """The session's ticket."""
        self._now()
        known = self._known.get(session_id)
        return None if known is None else known.ticket

    async def move(self, ticket: Ticket) -> bool:
        """Another gateway takes the session."""
        self._now()
        known = self._known.get(ticket.session_id)
        if known is None or known.ticket is None or known.ticket.places != ticket.places[:-1]:
            return False
        now = self._now()
        known = self._touch(ticket.session_id, now)
        known.ticket, known.told_at = ticket, now
        self._hold_seat(ticket.opened.tenant_id, ticket.session_id, now)
        return True

    async def settle_places(self, ticket: Ticket, before: tuple[Place, ...]) -> bool:
        """Its gateway tells from where the session is to be read."""
        known = self._known.get(ticket.session_id)
        if known is None or known.ticket is None or known.ticket.places != before:
            return False
        self._touch(ticket.session_id, self._now()).ticket = ticket
        return True

    async def sessions(self, limit: int, tenant_id: TenantId | None = None) -> SessionPage:
        """At most `limit` sessions."""
        now = self._now()
        names = list(self._known) if tenant_id is None else list(self._seats(tenant_id, now))
        return SessionPage(len(names), tuple(self._view(name, self._known[name], now) for name in names[:limit]))

    async def session(self, session_id: SessionId) -> SessionView | None:
        """One session."""
        now = self._now()
        known = self._known.get(session_id)
        return None if known is None else self._view(session_id, known, now)

    async def check(self) -> None:
        """Memory is always there."""

    def counts(self) -> StoreCounts:
        """Refused writes."""
        return StoreCounts(self._fenced)

    async def close(self) -> None:
        """Nothing is held."""

    def check_integrity(self) -> None:
        """Every lease is of a known session; what ends first comes first, so that nothing outlasts its time."""
        self._leases.check_integrity()
        owned = [known for known in self._known.values() if known.first_epoch is not None]
        ensure(len(owned) == len(self._leases), "sessions that had an owner == leases")
        for ends in (
            [known.kept_until for known in self._known.values()],
            *(t.seats.values() for t in self._tenants.values()),
        ):
            ensure(list(ends) == sorted(ends), "what ends first comes first")

    def _now(self) -> float:
        """The time; sessions that nobody spoke of for long are forgotten by it."""
        now = self._clock()
        while self._known:
            session_id, known = next(iter(self._known.items()))
            if now < known.kept_until:
                break
            del self._known[session_id]
            self._leases.forget(session_id)
        return now

    def _touch(self, session_id: SessionId, now: float) -> _Known:
        known = self._known.pop(session_id, None) or _Known(since=now, kept_until=now)
        known.kept_until = now + self._keep_s
        self._known[session_id] = known
        return known

    def _drop(self, session_id: SessionId, known: _Known) -> None:
        """One side has let go of the session; it is gone when neither worker nor gateway has it."""
        if known.first_epoch is None and known.seat is None and known.ticket is None:
            del self._known[session_id]

    def _fence(self, lease: Lease) -> None:
        refusal = self._leases.fence(lease.session_id, lease.epoch)
        if refusal is not None:
            self._fenced += 1
            raise refusal

    def _count_entry(self, entries: deque[float], most: int, now: float) -> None:
        while entries and (len(entries) > most or now >= entries[0] + MINUTE_S):
            entries.popleft()
        if len(entries) == most:
            raise too_many_a_minute(most, entries[0] + MINUTE_S - now)
        entries.append(now)

    def _keep(self, seat: Seat, now: float) -> Kept:
        if not self._is_of(seat):
            return Kept.LOST
        self._sit(seat, now)
        return Kept.KEPT if self._known[seat.session_id].ticket is not None else Kept.NO_TICKET

    def _abandon(self, lease: Lease, since: float) -> bool:
        known = self._known.get(lease.session_id)
        if known is None or self._leases.fence(lease.session_id, lease.epoch) is not None:
            return False
        if max(known.since, known.told_at or known.since) > since:
            return False
        known.seat = known.told_at = known.ticket = None
        return True

    def _is_of(self, seat: Seat) -> bool:
        """Whether no other gateway has the session."""
        known = self._known.get(seat.session_id)
        if known is None:
            return True
        has = known.ticket.gateway if known.ticket else known.seat.gateway if known.seat else seat.gateway
        return has == seat.gateway

    def _sit(self, seat: Seat, now: float) -> None:
        known = self._touch(seat.session_id, now)
        known.seat, known.told_at = seat, now
        if known.ticket is not None:
            known.ticket = replace(known.ticket, gateway=seat.gateway)
        self._hold_seat(seat.tenant_id, seat.session_id, now)

    def _hold_seat(self, tenant_id: TenantId, session_id: SessionId, now: float) -> None:
        seats = self._seats(tenant_id, now)
        seats.pop(session_id, None)
        seats[session_id] = now + self._seat_ttl_s

    def _seats(self, tenant_id: TenantId, now: float) -> dict[SessionId, float]:
        """The tenant's seats that have not ended."""
        seats = self._tenants.setdefault(tenant_id, _Tenant()).seats
        while seats:
            session_id, ends_at = next(iter(seats.items()))
            if now < ends_at:
                break
            del seats[session_id]
        return seats

    def _view(self, session_id: SessionId, known: _Known, now: float) -> SessionView:
        lease, seat, checkpoint = self._leases.newest(session_id), known.seat, known.checkpoint
        held = lease is not None and now < lease.expires_at
        tenant_of = seat or known.opened
        return SessionView(
            session_id,
            age_s=now - known.since,
            tenant_id=tenant_of.tenant_id if tenant_of else None,
            called=seat.called if seat else None,
            gateway=seat.gateway if seat else None,
            stage=seat.stage if seat else None,
            received_ms=seat.received_ms if seat else None,
            processed_ms=seat.processed_ms if seat else None,
            told_s=None if known.told_at is None else now - known.told_at,
            owner=lease.owner if lease and held else None,
            lease_s=lease.expires_at - now if lease and held else None,
            epoch=lease.epoch if lease else None,
            owners=lease.epoch - known.first_epoch + 1 if lease and known.first_epoch else 0,
            checkpoint_ms=checkpoint.start * 1000 // SAMPLE_RATE if checkpoint else None,
            saved_s=None if known.saved_at is None else now - known.saved_at,
            models=checkpoint.models if checkpoint else (),
        )


def _place(checkpoint: Checkpoint) -> tuple[int, int]:
    return checkpoint.index, checkpoint.skip_bytes
