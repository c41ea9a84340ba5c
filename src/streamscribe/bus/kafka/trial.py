"""Sessions at which workers ended, one after the other: each is tried apart, so that only the guilty one is blamed."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf

from streamscribe.bus.kafka.leases import Leases
from streamscribe.bus.kafka.owned import Owned
from streamscribe.core.ids import SessionId
from streamscribe.core.quarantine import NO_ENDS, Ends
from streamscribe.core.records import Record

Steps = Callable[[SessionId], frozenset[object]]
"""Gives the steps of models that are under way or will be for what is settled of a session, each the same until it is
over. The session's id is among them where nobody knows."""

TURN_S = 0.5
"""The longest turn of a suspect that was not on trial yet when a worker ended."""

NOWHERE = 2**31
"""The place of a suspect whose turn is over: none of its records, nor one that comes yet."""

LOOK_EVERY_S = 0.01


def to_try(ends: Ends) -> bool:
    """Whether a session is suspect: two of its workers ended, or the last one while it was on trial."""
    return ends.count > 1 or ends.at is not None


class Trials:
    """Gives the worker the records of suspects one at a time, of one session at a time.

    Before a record is given the store knows which: where the process ends, its successor knows who was on trial, and
    at what. Those have their turns before all others, and the next record of theirs comes when this one is settled and
    no model is at work for it any more, however long that takes. Who was not on trial yet has its records as soon as
    they are settled, and a turn of TURN_S at most: what is left of it then comes at once. A session that is through
    with all that its former owners could hear is cleared: at the end of its turn, or later by whoever asks `through`.
    Until then it is on trial, but at none of its records: a worker's end while others have their turns may be its own,
    and is not known to be at one record.
    """

    def __init__(
        self,
        leases: Leases,
        hand_over: Callable[[Record], None],
        lose: Callable[[Owned], None],
        steps: Steps,
    ) -> None:
        """`hand_over` gives a record to the worker; `lose` is told of a session that another worker has."""
        self._leases = leases
        self._hand_over = hand_over
        self._lose = lose
        self._steps = steps
        self._turn = asyncio.Condition()
        self._waiting: dict[Owned, tuple[bool, int]] = {}
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something of a session came or was processed, or it is let go."""
        self._changed.set()

    def through(self, session: Owned) -> bool:
        """Whether nothing of it that could have ended its former owners can end this one.

        What is under way when that is first asked has to end, not what comes later.
        """
        if not session.got_on:
            return False
        now = self._steps(session.session_id)
        last = now if session.last_steps is None else session.last_steps
        session.last_steps = now & (last | {session.session_id})
        return not session.last_steps

    async def run(self, session: Owned) -> None:
        """Returns when the worker has all that has come of the session, or that is not here any more."""
        ends = session.lease.ends if session.lease is not None else NO_ENDS
        accused = ends.at is not None
        self._waiting[session] = accused, ends.count
        try:
            async with self._turn:
                await self._turn.wait_for(lambda: session.trying is None or self._next() is session)
                try:
                    await self._try(session, careful=accused)
                    self._give_all(session)
                finally:
                    self._turn.notify_all()
        finally:
            del self._waiting[session]

    def _next(self) -> Owned | None:
        """Who was on trial, then who has waited for more workers."""
        waiting = [session for session in self._waiting if session.trying is not None]
        return max(waiting, key=self._waiting.__getitem__, default=None)

    async def _try(self, session: Owned, *, careful: bool) -> None:
        until_s = inf if careful else asyncio.get_running_loop().time() + TURN_S

        def is_next() -> bool:
            held = session.trying or ()
            if session.unsettled_records > len(held) or (careful and self._steps(session.session_id)):
                return False
            return bool(held) or session.got_on

        goes_on = True
        while goes_on and session.trying is not None and not session.got_on:
            if session.trying:
                if not await self._leases.note(session, session.trying[0].index):
                    self._lose(session)
                if session.trying is None:
                    return
                self._hand_over(session.trying.popleft())
            goes_on = await self._until(session, is_next, until_s)
        through = await self._until(session, lambda: self.through(session), until_s)
        if session.over:  # its end may be told, and not in the log yet
            return
        if not await self._leases.note(session, None if through or not session.live else NOWHERE):
            self._lose(session)

    def _give_all(self, session: Owned) -> None:
        rest, session.trying = session.trying or (), None
        for record in rest:
            if session.live:
                self._hand_over(record)

    async def _until(self, session: Owned, is_it: Callable[[], bool], until_s: float) -> bool:
        """Whether it came to that while the session was live."""
        loop = asyncio.get_running_loop()
        while session.live and not is_it():
            if loop.time() >= until_s:
                return False
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):  # nothing tells when a step is over
                    await self._changed.wait()
        return session.live
