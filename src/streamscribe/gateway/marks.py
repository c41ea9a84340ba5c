"""Marks of sessions: taken now and then, and of use once nobody needs the texts before them any more."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from streamscribe.core.ids import SessionId
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import MovingBus, Place
from streamscribe.wire.session_mark import encode_mark

_MAX_TAKEN = 4


@dataclass(slots=True)
class _Marked:
    """`taken` are a session's marks that are too young, with their times; `ripe` is the newest that is old enough,
    until the store has it."""

    live: LiveSession
    due: float
    ripe: Place | None = None
    taken: deque[tuple[float, Place]] = field(default_factory=lambda: deque(maxlen=_MAX_TAKEN))


class Marks:
    """The places from which another gateway may read this gateway's sessions, kept near: between `behind_s` and a half
    more behind the present, for a session that has a moment without an open text in that time.

    `behind_s` is for how long the texts of results must be there, in the log, for a client that has not got them.
    """

    def __init__(self, bus: MovingBus, behind_s: float) -> None:
        self._bus = bus
        self._behind_s = behind_s
        self._sessions: dict[SessionId, _Marked] = {}

    def begin(self, live: LiveSession) -> None:
        """A session is here, and all that it was told is in it."""
        now = asyncio.get_running_loop().time()
        if not live.over:
            self._sessions[live.bus_id] = _Marked(live, now + self._behind_s / 2)

    def forget(self, session_id: SessionId) -> None:
        """It is here no more."""
        self._sessions.pop(session_id, None)

    def heard(self, live: LiveSession) -> None:
        """The session may have such a moment now; asked after each event, so it is cheap where no mark is due."""
        marked = self._sessions.get(live.bus_id)
        now = asyncio.get_running_loop().time()
        if marked is None or now < marked.due or (mark := live.mark()) is None:
            return
        place = self._bus.stand(live.bus_id, encode_mark(mark))
        if place is not None:
            marked.taken.append((now, place))
            marked.due = now + self._behind_s / 2

    def ripe(self) -> list[tuple[SessionId, Place]]:
        """The newest place of each session that is old enough, until it is settled; silent sessions are marked too."""
        latest = asyncio.get_running_loop().time() - self._behind_s
        for marked in self._sessions.values():
            self.heard(marked.live)
            while marked.taken and marked.taken[0][0] <= latest:
                marked.ripe = marked.taken.popleft()[1]
        return [(session_id, marked.ripe) for session_id, marked in self._sessions.items() if marked.ripe is not None]

    def settled(self, session_id: SessionId, place: Place) -> None:
        """Nobody need be told of that place any more."""
        marked = self._sessions.get(session_id)
        if marked is not None and marked.ripe is place:
            marked.ripe = None
