"""Sessions in Redis, for the many processes of a cluster: one Lua script for each operation, by Redis' own clock."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import BadRequest, InternalError, LeaseLost
from streamscribe.core.ids import LeaseEpoch, SessionId, TenantId
from streamscribe.core.lease import Lease
from streamscribe.core.quarantine import Ends
from streamscribe.core.records import Checkpointed, SessionOpened
from streamscribe.core.session_view import SessionPage, SessionView
from streamscribe.ports import Kept, Place, Seat, StoreCounts, Ticket
from streamscribe.store.numbers import NumbersTaken
from streamscribe.store.quota import seats_taken, too_many_a_minute
from streamscribe.store.redis_link import PREFIX, RedisLink
from streamscribe.store.redis_server import RedisServer, server_of
from streamscribe.store.redis_tickets import TICKET_FIELDS, places_text, ticket_of, ticket_text
from streamscribe.store.redis_views import FIELDS, read_as, view_of
from streamscribe.wire.bus_records import decode_event, decode_record, encode_event, encode_record

MAX_TOGETHER = 100
"""Sessions in one script: Redis serves nobody else while it runs, about a millisecond."""

_US = 1_000_000
_SCRIPTS = (
    *("claim", "renew", "release", "save", "note", "abandon", "forget"),
    *("enter", "keep", "leave", "hand_in", "move", "list", "read", "take_number", "free_number"),
)

_Item = TypeVar("_Item")


class RedisSessions:
    """`ports.SessionStore` of a Redis (7.0 or later, one primary); connects at the first use.

    A call takes `timeout_s` at most, what waits for one of `max_connections` connections included; each of many leases
    or seats has its own share of calls, `MAX_TOGETHER` in one. Nothing is kept back after a failure: the next call
    tries again. Where Redis is full, nobody enters, and who is there goes on. Raises ValueError for what is no Redis
    URL. Of one event loop.
    """

    def __init__(
        self,
        url: str,
        *,
        lease_ttl_s: float,
        seat_ttl_s: float,
        keep_s: float,
        timeout_s: float = 0.2,
        max_connections: int = 8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = RedisLink(url, _SCRIPTS, timeout_s=timeout_s, max_connections=max_connections)
        self._lease_ttl_s = lease_ttl_s
        self._lease_us, self._seat_us, self._keep_us = (round(s * _US) for s in (lease_ttl_s, seat_ttl_s, keep_s))
        self._clock = clock
        self._fenced = 0

    async def claim(self, session_id: SessionId, owner: str) -> Lease:
        """A lease; its epoch is at first Redis' time in microseconds, and never comes again."""
        asked = self._clock()
        keys = (_record(session_id), _INDEX, _MARK)
        named = (session_id, owner, self._lease_us, self._keep_us)
        epoch, left_us, first, count, same, place = map(int, await self._link.run("claim", keys, named))
        if epoch == 0:
            raise LeaseLost(retry_after_s=left_us / _US)
        ends = Ends(count, same, place if place >= 0 else None)
        return Lease(session_id, owner, LeaseEpoch(epoch), asked + self._lease_ttl_s, ends, first=bool(first))

    async def renew(self, leases: Sequence[Lease]) -> list[Lease | None]:
        """Each lease with a later end, or None; where it fails, some may be renewed."""
        renewed: list[Lease | None] = []
        for some in _parts(leases):
            asked = self._clock()
            keys = (_INDEX, *(_record(lease.session_id) for lease in some))
            named = (text for lease in some for text in (lease.session_id, lease.epoch, lease.owner))
            done = await self._link.run("renew", keys, (self._lease_us, self._keep_us, *named))
            ends_at = asked + self._lease_ttl_s
            renewed += [
                replace(lease, expires_at=max(lease.expires_at, ends_at)) if kept else None
                for lease, kept in zip(some, done, strict=True)
            ]
        return renewed

    async def release(self, lease: Lease) -> None:
        """Ends the lease, if it is in force."""
        await self._link.run("release", (_record(lease.session_id),), (lease.epoch, lease.owner))

    async def save(
        self, lease: Lease, *, opened: SessionOpened | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        """Keeps what another owner needs, in the envelopes of `wire.bus_records`; raises LeaseLost."""
        texts: list[Any] = ["", ""]
        if opened is not None:
            texts = [opened.tenant_id, encode_record(replace(opened, checkpoint=None))]
        if checkpoint is not None:
            made = encode_event(Checkpointed(lease.session_id, checkpoint))
            texts += [made, checkpoint.index, checkpoint.skip_bytes, checkpoint.start * 1000 // SAMPLE_RATE]
            texts.append(" ".join(checkpoint.models))
        else:
            texts += ["", 0, 0, 0, ""]
        named = (lease.session_id, lease.epoch, lease.owner, self._keep_us)
        self._fence(await self._link.run("save", (_record(lease.session_id), _INDEX), (*named, *texts)))

    async def load(self, session_id: SessionId) -> SessionOpened | None:
        """What was saved. Raises InternalError for what this version cannot read."""
        opened, checkpoint = await self._link.ask(
            lambda: self._link.client.hmget(_record(session_id), "opened", "checkpoint")
        )
        if opened is None:
            return None
        try:
            record = decode_record(opened)
            event = decode_event(checkpoint) if checkpoint is not None else None
        except BadRequest:
            raise InternalError("the store has the session in a form that is not known here") from None
        if not isinstance(record, SessionOpened) or not isinstance(event, Checkpointed | None):
            raise InternalError("the store has something else in the session's place")
        return replace(record, checkpoint=event.checkpoint) if event is not None else record

    async def note(self, lease: Lease, place: int | None) -> None:
        """Notes where the owner is, or that it is at no place and the session got on; raises LeaseLost."""
        named = (lease.epoch, lease.owner, "" if place is None else place)
        self._fence(await self._link.run("note", (_record(lease.session_id),), named))

    async def abandon(self, leases: Sequence[Lease], after_s: float) -> list[bool]:
        """Which sessions no gateway has told of for so long."""
        gone: list[bool] = []
        for some in _parts(leases):
            keys = [_record(lease.session_id) for lease in some]
            named = (text for lease in some for text in (lease.epoch, lease.owner))
            gone += map(bool, await self._link.run("abandon", keys, (round(after_s * _US), *named)))
        return gone

    async def forget(self, lease: Lease) -> None:
        """The session is over for its worker; raises LeaseLost."""
        keys = (_record(lease.session_id), _INDEX)
        self._fence(await self._link.run("forget", keys, (lease.session_id, lease.epoch, lease.owner)))

    async def enter(self, seat: Seat, *, max_sessions: int, max_per_minute: int | None = None) -> None:
        """Takes a seat; raises QuotaExceeded. Exact, however many gateways ask at once."""
        keys = (_seats(seat.tenant_id), _entries(seat.tenant_id), _record(seat.session_id), _INDEX)
        bounds = (self._seat_us, self._keep_us, max_sessions, max_per_minute or 0)
        entered, wait_us = await self._link.run("enter", keys, (*bounds, *_told(seat)))
        if int(entered) < 0:
            raise seats_taken()
        if int(entered) == 0:
            raise too_many_a_minute(max_per_minute or 0, int(wait_us) / _US)

    async def keep(self, seats: Sequence[Seat]) -> list[Kept]:
        """Keeps seats; what became of each."""
        kept: list[Kept] = []
        for some in _parts(seats):
            keys = (_INDEX, *(key for seat in some for key in (_seats(seat.tenant_id), _record(seat.session_id))))
            told_of = (text for seat in some for text in _told(seat))
            kept += map(Kept, await self._link.run("keep", keys, (self._seat_us, self._keep_us, *told_of)))
        return kept

    async def leave(self, seat: Seat) -> None:
        """Frees the seat, unless another gateway has the session."""
        keys = (_seats(seat.tenant_id), _record(seat.session_id), _INDEX)
        await self._link.run("leave", keys, (seat.session_id, seat.gateway))

    async def hand_in(self, ticket: Ticket) -> None:
        """Keeps a session's ticket, unless it has moved."""
        named = (ticket.session_id, self._keep_us, ticket.gateway, ticket.opened.tenant_id)
        texts = (ticket_text(ticket), places_text(ticket.places))
        await self._link.run("hand_in", (_record(ticket.session_id), _INDEX), (*named, *texts))

    async def ticket(self, session_id: SessionId) -> Ticket | None:
        """The session's ticket. Raises InternalError for what this version cannot read."""
        found = await self._link.ask(lambda: self._link.client.hmget(_record(session_id), *TICKET_FIELDS))
        return ticket_of(session_id, *found)

    async def move(self, ticket: Ticket) -> bool:
        """Another gateway takes the session, if its places are still those that it knows."""
        return await self._place(ticket, ticket.places[:-1], self._seat_us)

    async def settle_places(self, ticket: Ticket, before: tuple[Place, ...]) -> bool:
        """Its gateway tells from where the session is to be read."""
        return await self._place(ticket, before, 0)

    async def _place(self, ticket: Ticket, before: tuple[Place, ...], seat_us: int) -> bool:
        keys = (_record(ticket.session_id), _INDEX, _seats(ticket.opened.tenant_id))
        texts = (places_text(before), places_text(ticket.places))
        named = (ticket.session_id, self._keep_us, ticket.gateway, *texts, seat_us)
        return bool(await self._link.run("move", keys, named))

    async def take_number(self, gateway: str, numbers: range) -> int | NumbersTaken:
        """Gives a gateway the first free one of `numbers`, or keeps its own, for as long as a seat."""
        named = (gateway, self._seat_us, numbers.start, numbers.stop - 1)
        number, *taken = await self._link.run("take_number", (_NUMBERS,), named)
        if not taken:
            return int(number)
        return NumbersTaken(int(taken[0]), int(taken[1]), taken[2].decode(errors="replace"))

    async def free_number(self, gateway: str, number: int) -> None:
        """A gateway needs its number no longer."""
        await self._link.run("free_number", (_NUMBERS,), (gateway, number))

    async def gateways(self) -> dict[int, str]:
        """The gateways that keep their numbers, by these."""
        seconds, microseconds = await self._link.ask(self._link.client.time)
        found = await self._link.ask(lambda: self._link.client.hgetall(_NUMBERS))
        held = ((number, *text.partition(b" ")) for number, text in found.items())
        now_us = seconds * 1_000_000 + microseconds
        return {
            int(number): name.decode(errors="replace")
            for number, ends_us, _, name in held
            if number.isdigit() and ends_us.isdigit() and int(ends_us) > now_us
        }

    async def sessions(self, limit: int, tenant_id: TenantId | None = None) -> SessionPage:
        """At most `limit` sessions, from an index: Redis never walks its keys for it."""
        total, *names = await self._link.run("list", (_INDEX if tenant_id is None else _seats(tenant_id),), (limit,))
        views: list[SessionView] = []
        for some in _parts([one for name in names if (one := read_as(SessionId, name)) is not None]):
            views += await self._views(some)
        return SessionPage(total, tuple(views))

    async def session(self, session_id: SessionId) -> SessionView | None:
        """One session."""
        return next(iter(await self._views([session_id])), None)

    async def check(self) -> None:
        """Returns when Redis takes what is written; what it raises is for who runs it, and says where that Redis is."""
        await self._link.check()

    async def server(self) -> RedisServer:
        """What the server says of itself."""
        return server_of(await self._link.ask(lambda: self._link.client.info()))

    def counts(self) -> StoreCounts:
        """Refused writes, and calls that failed."""
        return StoreCounts(self._fenced, self._link.failures)

    async def close(self) -> None:
        """Closes the connections."""
        await self._link.close()

    async def _views(self, some: Sequence[SessionId]) -> list[SessionView]:
        now_us, *found = await self._link.run("read", [_record(session_id) for session_id in some], FIELDS)
        views = (view_of(*each, int(now_us)) for each in zip(some, found, strict=True))
        return [view for view in views if view is not None]

    def _fence(self, written: int) -> None:
        if not written:
            self._fenced += 1
            raise LeaseLost


_INDEX = f"{PREFIX}sessions"
_MARK = f"{PREFIX}epoch"
_NUMBERS = f"{PREFIX}gateways"


def _record(session_id: SessionId) -> str:
    return f"{PREFIX}session:{session_id}"


def _seats(tenant_id: TenantId) -> str:
    return f"{PREFIX}seats:{tenant_id}"


def _entries(tenant_id: TenantId) -> str:
    return f"{PREFIX}entries:{tenant_id}"


def _told(seat: Seat) -> tuple[str | int, ...]:
    """A seat as scripts take it: seven values."""
    named = (seat.session_id, seat.tenant_id, seat.called, seat.gateway)
    return (*named, seat.stage.value, seat.received_ms, seat.processed_ms)


def _parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    return (items[start : start + MAX_TOGETHER] for start in range(0, len(items), MAX_TOGETHER))
