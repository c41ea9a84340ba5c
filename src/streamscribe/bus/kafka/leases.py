"""What a worker's end of the log asks of the session store, again and again until it is done."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import LeaseLost, StoreUnavailable, StreamScribeError
from streamscribe.core.lease import Lease
from streamscribe.core.quarantine import NO_ENDS
from streamscribe.core.records import SessionOpened
from streamscribe.ports import SessionStore, Ticket

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two tries at a store that is away."""

RELEASE_S = 1.0
"""For letting all leases of a partition go; whoever comes next waits for those that are left to end."""

_MARGIN_S = 0.01

_Answer = TypeVar("_Answer")


class Leases:
    """Leases of sessions, claimed, kept and given back in the name of `owner`.

    While the store is away everything is tried again, and sessions that are live go on: their partition is ours as long
    as the group says so, and the gateways drop what an older epoch tells.
    """

    def __init__(self, store: SessionStore, owner: str) -> None:
        self._store = store
        self.owner = owner

    async def know(self, session: Owned) -> SessionOpened | None:
        """Claims the session; what the store knows of it, as far as this version can read it."""
        known = None
        try:
            known = await self.claim(session)
            if not session.over and (ticket := await self.ticket(session)) is not None:
                session.hears(ticket.places[-1].partition, ticket.places[-1].generation)
        except StreamScribeError as unreadable:
            session.error = session.error or unreadable
        return known

    async def claim(self, session: Owned) -> SessionOpened | None:
        """Takes the session's lease, once nobody else's is in force, and gives what the store knows of it.

        Gives up, with None, when the session is over here; one that has ended for all is claimed to be forgotten.
        """

        async def take() -> SessionOpened | None:
            session.hold(await self._store.claim(session.session_id, self.owner))
            return None if session.over else await self._store.load(session.session_id)

        while True:
            try:
                return await _until_answered(take, while_=lambda: not session.over or session.ended)
            except LeaseLost as held:
                await asyncio.sleep((held.retry_after_s or 0.0) + _MARGIN_S)

    async def ticket(self, session: Owned) -> Ticket | None:
        """Says which gateway has the session, if the store knows; None too when the session is over here."""
        return await _until_answered(lambda: self._store.ticket(session.session_id), while_=lambda: not session.over)

    async def renew(self, sessions: Sequence[Owned]) -> list[Owned] | None:
        """Renews their leases, and claims again what ended while nobody could; gives those that are lost.

        None: the store is away.
        """
        leases = [session.lease for session in sessions if session.lease is not None]
        try:
            renewed = await self._store.renew(leases)
        except StoreUnavailable:
            return None
        lost = []
        for session, lease in zip(sessions, renewed, strict=True):
            if lease is not None:
                session.hold(lease)
            elif not await self._claimed_again(session):
                lost.append(session)
        return lost

    async def save(self, session: Owned, checkpoint: Checkpoint | None) -> bool:
        """Saves the checkpoint, and what opened the session with the first one; False where another has the session."""

        async def write(lease: Lease) -> None:
            opened, newest = (
                (None, checkpoint) if session.opened_saved else (session.opened, checkpoint or session.saved)
            )
            await self._store.save(lease, opened=opened, checkpoint=newest)
            session.opened_saved, session.saved = True, newest or session.saved

        return await self._write(session, write)

    async def note(self, session: Owned, place: int | None) -> bool:
        """Notes where the session is, or that it got on; False where another has it."""

        async def write(lease: Lease) -> None:
            await self._store.note(lease, place)
            session.on_trial = place is not None
            if place is None and session.lease is not None:
                session.lease = replace(session.lease, ends=NO_ENDS)

        return await self._write(session, write)

    async def _write(self, session: Owned, write: Callable[[Lease], Awaitable[None]]) -> bool:
        """Writes under the session's lease; False where another has the session. One that is over needs it no more."""

        async def under_lease() -> None:
            if session.lease is not None:
                await write(session.lease)

        while True:
            try:
                await _until_answered(under_lease, while_=lambda: not session.over)
            except LeaseLost:
                if not await self._claimed_again(session):
                    return False
            else:
                return True

    async def abandon(self, sessions: Sequence[Owned], after_s: float) -> list[Owned]:
        """Those of which no gateway has told for so long; from now on none can have them."""
        held = [(session, session.lease) for session in sessions if session.lease is not None]
        try:
            gone = await self._store.abandon([lease for _, lease in held], after_s)
        except StoreUnavailable:
            return []
        return [session for (session, _), one in zip(held, gone, strict=True) if one]

    async def forget(self, session: Owned) -> bool:
        """The session is over. Whether the store has forgotten it: it was ours to say. A store that is away forgets it
        by itself, later."""
        if session.lease is not None:
            with suppress(LeaseLost, StoreUnavailable):
                await self._store.forget(session.lease)
                return True
        return False

    async def release(self, sessions: Sequence[Owned]) -> None:
        """Gives leases back, so that the next owner need not wait for their end, nor think that this one has ended.

        Where the store fails at one it is tried again: two ends at one place would be a quarantine.
        """

        async def one(lease: Lease) -> None:
            await _until_answered(lambda: self._store.release(lease))

        with suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                await asyncio.gather(*(one(session.lease) for session in sessions if session.lease is not None))

    async def _claimed_again(self, session: Owned) -> bool:
        """False where another has the session, or has had it since: then what is heard of it here was not all. Of one
        that is over meanwhile nothing is left behind."""
        if session.over or session.lease is None:
            return True
        before = session.lease.epoch
        try:
            lease = await self._store.claim(session.session_id, self.owner)
        except LeaseLost:
            return False
        except StoreUnavailable:
            return True
        if not (lease.first or lease.epoch <= before + 1):
            with suppress(StoreUnavailable):  # it ends by itself
                await self._store.release(lease)
            return False
        session.hold(lease)
        session.opened_saved &= not lease.first  # the store may have lost all that it had
        if session.over:
            await (self.forget(session) if session.ended else self.release([session]))
        return True


async def _until_answered(
    call: Callable[[], Awaitable[_Answer]], *, while_: Callable[[], bool] = lambda: True
) -> _Answer | None:
    """What the store answers, asked again while it is away; None where `while_` ends it."""
    pause_s = FIRST_PAUSE_S
    while while_():
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return None
