"""Sessions at which workers ended, one after the other: each is tried alone, so that only the guilty one is blamed."""

import asyncio
from collections.abc import Callable

from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.ids import SessionId
from streamscribe.core.quarantine import STEP_S
from streamscribe.core.records import Record

LOOK_EVERY_S = 0.01


class Trials:
    """Gives the worker the records of suspects one at a time, of one session at a time.

    Before a record is given the store knows which: where the process ends, its successor knows what it was at. The
    next one comes when this one is settled and no model is at work for it any more, which may come later, or STEP_S
    after. A session that is through with all that its former owners could hear is cleared.
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
        self.at_work: Callable[[SessionId], bool] = lambda session_id: False
        """Whether a model may be in a step for what the worker has settled of the session."""
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something of a session came or was processed, or it is let go."""
        self._changed.set()

    def through(self, session: Owned) -> bool:
        """Whether nothing of it that could have ended its former owners can end this one."""
        return session.got_on and not self.at_work(session.session_id)

    async def run(self, session: Owned) -> None:
        """Returns when the session is cleared, or is not here any more."""
        given = False
        async with self._turn:
            while session.trying is not None and session.live:
                if given and session.unsettled_records == len(session.trying):
                    await self._steps_are_over(session)
                    if session.got_on:
                        break
                if session.trying and session.unsettled_records == len(session.trying):
                    if not await self._noted(session, session.trying[0].index):
                        return
                    self._hand_over(session.trying.popleft())
                    given = True
                else:
                    self._changed.clear()
                    await self._changed.wait()
            if session.over or not await self._noted(session, None):  # its end may be told, and not in the log yet
                return
        rest, session.trying = session.trying or (), None
        for record in rest:
            if session.live:
                self._hand_over(record)

    async def _steps_are_over(self, session: Owned) -> None:
        for _ in range(int(STEP_S / LOOK_EVERY_S)):
            if not session.live or not self.at_work(session.session_id):
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _noted(self, session: Owned, place: int | None) -> bool:
        """False where there is nothing to try any more."""
        if not await self._leases.note(session, place):
            self._lose(session)
        return session.trying is not None
