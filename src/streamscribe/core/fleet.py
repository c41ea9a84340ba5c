"""Which of several workers has which session: the one with the fewest voices gets the next."""

from dataclasses import dataclass

from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure


@dataclass(slots=True)
class _Seat:
    """A session's voices (channels), and the member that hears them."""

    voices: int
    member: int | None


class Fleet:
    """The books of who works for whom. A member is a worker that is ready, by its number.

    A session keeps its seat whatever its member does; when that has left, the session has none until `reseat`.
    """

    def __init__(self) -> None:
        self._voices: dict[int, int] = {}
        self._seats: dict[SessionId, _Seat] = {}

    @property
    def by_load(self) -> list[int]:
        """The members, that with the fewest voices first; of equals the lowest number."""
        return sorted(self._voices, key=lambda member: (self._voices[member], member))

    def __len__(self) -> int:
        """How many sessions there are."""
        return len(self._seats)

    def join(self, member: int) -> None:
        """A worker is ready. One that is a member already stays as it is."""
        self._voices.setdefault(member, 0)

    def leave(self, member: int) -> None:
        """A worker is gone: its sessions are without one."""
        self._voices.pop(member, None)
        for seat in self._seats.values():
            if seat.member == member:
                seat.member = None

    def seat(self, session: SessionId, voices: int, member: int | None) -> None:
        """A new session, for a member or for none yet."""
        ensure(session not in self._seats, "a session is seated once")
        self._seats[session] = seat = _Seat(voices, None)
        self._take(seat, member)

    def member_of(self, session: SessionId) -> int | None:
        """Who has the session."""
        seat = self._seats.get(session)
        return None if seat is None else seat.member

    def reseat(self, session: SessionId) -> int | None:
        """Who has the session from now on: its member, else the least loaded; None while there is none."""
        seat = self._seats.get(session)
        if seat is None:
            return None
        if seat.member is None:
            self._take(seat, next(iter(self.by_load), None))
        return seat.member

    def forget(self, session: SessionId) -> int | None:
        """The session is over; who had it."""
        seat = self._seats.pop(session, None)
        if seat is None:
            return None
        if seat.member is not None:
            self._voices[seat.member] -= seat.voices
        return seat.member

    def voices(self, member: int) -> int:
        """How many voices a member hears."""
        return self._voices.get(member, 0)

    def _take(self, seat: _Seat, member: int | None) -> None:
        if member is not None and member in self._voices:
            seat.member = member
            self._voices[member] += seat.voices

    def check_integrity(self) -> None:
        """The voices of a member are those of its sessions; nobody has a session who is no member."""
        heard = dict.fromkeys(self._voices, 0)
        for seat in self._seats.values():
            if seat.member is not None:
                ensure(seat.member in heard, "who has a session is a member")
                heard[seat.member] += seat.voices
        ensure(heard == self._voices, "a member's voices == those of its sessions")
