"""What a worker's end of the log does again and again: leases are renewed, checkpoints saved, orphans let go."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.ids import SessionId

_MIN_RENEWAL_S, _MAX_RENEWAL_S = 0.1, 5.0


class Upkeep:
    """Keeps in the store what a successor needs of `sessions`.

    `lose` is told of sessions that another worker has, `saved` of checkpoints that the store has now, `orphaned` of
    sessions that nobody can want any more: for `orphaned_after_s` no record came, and no gateway told the store of
    them, although it could be reached all that time. Former owners' ends count until a session is `through`.
    """

    def __init__(
        self,
        leases: Leases,
        sessions: Mapping[SessionId, Owned],
        orphaned_after_s: float,
        *,
        spawn: Callable[[Coroutine[Any, Any, None], Owned], None],
        lose: Callable[[Owned], None],
        saved: Callable[[Owned, Checkpoint], None],
        orphaned: Callable[[Owned], None],
        through: Callable[[Owned], bool],
    ) -> None:
        self._leases = leases
        self._sessions = sessions
        self._orphaned_after_s = orphaned_after_s
        self._spawn = spawn
        self._lose, self._saved, self._orphaned, self._through = lose, saved, orphaned, through
        self._store_there_since: float | None = None

    def save(self, session: Owned) -> None:
        """Saves what the store does not have of it yet, soon."""
        if not session.saving:
            session.saving = True
            self._spawn(self._save(session), session)

    async def run(self, in_group: Callable[[], bool]) -> NoReturn:
        """Renews thrice in the time of a lease, while we are in the group for sure: who is not keeps nobody waiting."""
        loop = asyncio.get_running_loop()
        while True:
            ends = [session.lease.expires_at for session in self._sessions.values() if session.lease is not None]
            left_s = (min(ends) - loop.time()) / 3 if ends else _MIN_RENEWAL_S
            await asyncio.sleep(min(max(left_s, _MIN_RENEWAL_S), _MAX_RENEWAL_S))
            held = [session for session in self._sessions.values() if session.lease is not None]
            if held and in_group():
                await self._renew(held)
            else:
                self._store_there_since = None

    async def _renew(self, held: list[Owned]) -> None:
        now = asyncio.get_running_loop().time()
        lost = await self._leases.renew(held)
        if lost is None:
            self._store_there_since = None
            return
        for session in lost:
            self._lose(session)
        for session in held:
            if session.live and not session.opened_saved:
                self.save(session)
            had_ends = session.lease is not None and session.lease.ends.count > 0
            if (had_ends or session.on_trial) and self._through(session) and not await self._leases.note(session, None):
                self._lose(session)
        self._store_there_since = there_since = self._store_there_since or now
        quiet = [one for one in held if one.live and now - max(there_since, one.heard_at) >= self._orphaned_after_s]
        for session in await self._leases.abandon(quiet, self._orphaned_after_s) if quiet else ():
            self._orphaned(session)

    async def _save(self, session: Owned) -> None:
        checkpoint = session.durable_checkpoint()
        while not session.over and (checkpoint is not None or not session.opened_saved):
            if not await self._leases.save(session, checkpoint):
                self._lose(session)
            elif checkpoint is not None and not session.over:
                self._saved(session, checkpoint)
            checkpoint = session.durable_checkpoint()
        session.saving = False
