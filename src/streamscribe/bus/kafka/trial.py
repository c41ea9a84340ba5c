"""Sessions at which workers ended, one after the other: each is tried alone, so that only the guilty one is blamed."""

import asyncio
from collections.abc import Callable

from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.records import Record


class Trials:
    """Gives the worker the records of suspects one at a time, of one session at a time.

    Before a record is given the store knows which: where the process ends, its successor knows what it was at. The
    next one comes when this one is processed. A session that has heard all that its former owners could is cleared.
    """

    def __init__(
        self,
        leases: Leases,
        hand_over: Callable[[Record], None],
        lose: Callable[[Owned], None],
    ) -> None:
        """`hand_over` gives a record to the worker; `lose` is told of a session that another worker has."""
        self._leases = leases
        self._hand_over = hand_over
        self._lose = lose
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something of a session came or was processed, or it is let go."""
        self._changed.set()

    async def run(self, session: Owned) -> None:
        """Returns when the session is cleared, or is not here any more."""
        async with self._turn:
            while session.trying is not None and session.live and not session.got_on:
                if session.trying and session.unsettled_records == len(session.trying):
                    if not await self._noted(session, session.trying[0].index):
                        return
                    self._hand_over(session.trying.popleft())
                else:
                    self._changed.clear()
                    await self._changed.wait()
            if session.over or not await self._noted(session, None):
                return
        rest, session.trying = session.trying or (), None
        for record in rest:
            if session.live:
                self._hand_over(record)

    async def _noted(self, session: Owned, place: int | None) -> bool:
        """False where there is nothing to try any more."""
        if not await self._leases.note(session, place):
            self._lose(session)
        return session.trying is not None
