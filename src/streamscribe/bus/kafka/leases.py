"""What a worker's end of the log asks of the session store, again and again until it is done."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import LeaseLost, StoreUnavailable
from streamscribe.core.quarantine import NO_ENDS
from streamscribe.core.records import SessionOpened
from streamscribe.ports import SessionStore, Ticket

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two tries at a store that is away."""

RELEASE_S = 1.0
"""For letting all leases of a partition go; whoever comes next waits for those that are left to end."""

_MARGIN_S = 0.01


class Leases:
    """Leases of sessions, claimed, kept and given back in the name of `owner`.

    While the store is away everything is tried again, and sessions that are live go on: their partition is ours as long
    as the group says so, and the gateways drop what an older epoch tells.
    """

    def __init__(self, store: SessionStore, owner: str) -> None:
        self._store = store
        self.owner = owner

    async def claim(self, session: Owned) -> SessionOpened | None:
        """Takes the session's lease, once nobody else's is in force, and gives what the store knows of it.

        Gives up, with None, when the session is over here; one that has ended for all is claimed to be forgotten.
        """
        pause_s = FIRST_PAUSE_S
        while not session.over or session.ended:
            try:
                session.hold(await self._store.claim(session.session_id, self.owner))
                return None if session.over else await self._store.load(session.session_id)
            except LeaseLost as held:
                await asyncio.sleep((held.retry_after_s or 0.0) + _MARGIN_S)
            except StoreUnavailable:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return None

    async def ticket(self, session: Owned) -> Ticket | None:
        """Says which gateway has the session, if the store knows; None too when the session is over here."""
        pause_s = FIRST_PAUSE_S
        while not session.over:
            try:
                return await self._store.ticket(session.session_id)
            except StoreUnavailable:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return None

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
        while session.lease is not None and not session.over:
            opened, newest = (
                (None, checkpoint) if session.opened_saved else (session.opened, checkpoint or session.saved)
            )
            try:
                await self._store.save(session.lease, opened=opened, checkpoint=newest)
            except StoreUnavailable:
                await asyncio.sleep(LONGEST_PAUSE_S / 2)
            except LeaseLost:
                if not await self._claimed_again(session):
                    return False
            else:
                session.opened_saved, session.saved = True, newest or session.saved
                return True
        return True

    async def note(self, session: Owned, place: int | None) -> bool:
        """Notes where the session is, or that it got on; False where another has it."""
        pause_s = FIRST_PAUSE_S
        while session.lease is not None and not session.over:
            try:
                await self._store.note(session.lease, place)
            except StoreUnavailable:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except LeaseLost:
                if not await self._claimed_again(session):
                    return False
            else:
                if place is None:
                    session.lease = replace(session.lease, ends=NO_ENDS)
                return True
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

        async def one(session: Owned) -> None:
            while session.lease is not None:
                try:
                    await self._store.release(session.lease)
                except StoreUnavailable:
                    await asyncio.sleep(FIRST_PAUSE_S)
                else:
                    return

        with suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                await asyncio.gather(*(one(session) for session in sessions))

    async def _claimed_again(self, session: Owned) -> bool:
        """False where another has the session; of one that is over meanwhile nothing is left behind."""
        if session.over:
            return True
        try:
            lease = await self._store.claim(session.session_id, self.owner)
            session.hold(lease)
            session.opened_saved &= not lease.first  # the store may have lost all that it had
        except LeaseLost:
            return False
        except StoreUnavailable:
            return True
        if session.over:
            await (self.forget(session) if session.ended else self.release([session]))
        return True
