"""Sessions that no worker has claimed: while the store is away none can, and who waits for long is told so."""

import asyncio

from streamscribe.core.errors import StoreUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.restarts import Patience
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import MovingBus, SessionStore

PATIENCE_S = 60.0
"""So long a session waits for a store that is away: what was acknowledged is in the log, and is recognised when it is
back. As long as other things are waited for, `limits.finalize_timeout_s` and `kafka.delivery_timeout_s`."""
RETRY_AFTER_S = 5.0


class Unclaimed:
    """Sessions of this gateway of which no worker has spoken yet. Those that a worker has go on without the store."""

    def __init__(self, bus: MovingBus, store: SessionStore, every_s: float) -> None:
        """It is looked every `every_s` seconds; while this gateway stands still nobody looks, and nobody waits."""
        self._every_s = every_s
        self._bus = bus
        self._store = store
        self._sessions: dict[SessionId, tuple[LiveSession, Patience]] = {}

    def begin(self, live: LiveSession) -> None:
        """Its first record is about to be published."""
        self._sessions[live.bus_id] = live, Patience(self._every_s, asyncio.get_running_loop().time())

    def forget(self, session_id: SessionId) -> None:
        """It is here no more."""
        self._sessions.pop(session_id, None)

    async def look(self) -> None:
        """Asks the store, if anybody waits; who has waited in vain ends with StoreUnavailable."""
        for session_id in [one for one in self._sessions if self._is_claimed(one)]:
            del self._sessions[session_id]
        if not self._sessions:
            return
        answers = await self._answers()
        now = asyncio.get_running_loop().time()
        for live, patience in list(self._sessions.values()):
            waited_s = patience.look(alive=answers, now=now)
            if not answers and waited_s >= PATIENCE_S and not self._is_claimed(live.bus_id):
                live.break_down(StoreUnavailable(retry_after_s=RETRY_AFTER_S))

    async def _answers(self) -> bool:
        try:
            await self._store.check()
        except StoreUnavailable:
            return False
        return True

    def _is_claimed(self, session_id: SessionId) -> bool:
        place = self._bus.stand(session_id, b"")
        return place is not None and place.epoch is not None
