"""What is done when workers fall behind the audio of their sessions, in this order:

1. A session whose backlog is full is read no further, which stops its client (the bus' affair).
2. Where that goes on, its client is told to slow down, each second; drafts, of which a session has one at a time,
   become fewer by themselves.
3. Where many sessions are stopped for longer, nobody new is let in.
4. A session of which nothing is taken for as long as finals are waited for is ended (a file: as long as a session may
   last): what is read no further must have an end of its own.

Admission by load (`core.admission`) keeps most of this from happening: this is for what nobody foresees, as workers
that die, brokers that are slow, or a machine that others use too.
"""

from dataclasses import dataclass

from streamscribe.core.errors import Overloaded
from streamscribe.core.ids import SessionId

SLOW_DOWN_AFTER_S = 1.0
REFUSE_AFTER_S = 3.0
REFUSE_SHARE = 0.25
"""Of a gateway's sessions that are stopped for so long: then nobody new comes in."""
FORGOTTEN_AFTER_S = 2.5
"""Who was not seen stopped for so long has nothing to say."""
RETRY_S = 2.0


@dataclass(slots=True)
class _Still:
    since: float
    seen: float
    told: float


def given_up(waited_s: float, patience_s: float) -> Overloaded | None:
    """Why a session ends of which one record has waited so long for room."""
    if waited_s < patience_s:
        return None
    return Overloaded(f"workers took nothing of the session for {patience_s:g} s", retry_after_s=RETRY_S)


class Standstill:
    """The live sessions that are read no further than workers keep up with. At most as many as there are."""

    def __init__(self) -> None:
        self._still: dict[SessionId, _Still] = {}

    def count(self, now: float) -> int:
        """How many there are; from any thread."""
        return sum(now - still.seen <= FORGOTTEN_AFTER_S for still in tuple(self._still.values()))

    def stop(self, session: SessionId, now: float) -> bool:
        """What a session has said has no room, now or still; whether its client is to be told to slow down."""
        still = self._still.get(session)
        if still is None or now - still.seen > FORGOTTEN_AFTER_S:
            still = self._still[session] = _Still(now, now, now)
        still.seen = now
        if now - still.told < SLOW_DOWN_AFTER_S:
            return False
        still.told = now
        return True

    def go_on(self, session: SessionId) -> None:
        """There was room at once, or the session is over."""
        self._still.pop(session, None)

    def refusal(self, sessions: int, now: float) -> Overloaded | None:
        """Why nobody new may come to a gateway of so many `sessions`."""
        if not self._still:
            return None
        late = sum(
            now - still.since >= REFUSE_AFTER_S and now - still.seen <= FORGOTTEN_AFTER_S
            for still in self._still.values()
        )
        if not late or late < REFUSE_SHARE * sessions:
            return None
        return Overloaded("workers do not keep up with the sessions that are here", retry_after_s=RETRY_S)
