"""Who may work on a session: leases that end, and epochs by which a former owner's writes are refused (law 2)."""

from dataclasses import dataclass, replace

from streamscribe.core.errors import LeaseLost
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.integrity import ensure
from streamscribe.core.quarantine import NO_ENDS, Ends


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of `owner` to a session until `expires_at`, unless it is renewed.

    `first`: nobody is known to have owned the session before. `ends` are those of the owners before who ended without
    releasing it.
    """

    session_id: SessionId
    owner: str
    epoch: LeaseEpoch
    expires_at: float
    ends: Ends = NO_ENDS
    first: bool = False


@dataclass(slots=True)
class _Held:
    """The session's newest lease; `place` is where its owner said to be."""

    lease: Lease
    released: bool = False
    place: int | None = None

    def ends(self, owner: str) -> Ends:
        """What `owner` is told, who comes next; who comes again has not ended."""
        if self.released or owner == self.lease.owner:
            return self.lease.ends
        return self.lease.ends.ended(self.place)


class LeaseTable:
    """All leases, each of `ttl_s` seconds. A session has at most one owner; its epoch grows by one with each change.

    A lease that has expired or was released stays in the table until another owner comes or the session is
    forgotten. An unknown session begins beyond all epochs of those that were forgotten: none ever repeats.
    """

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._held: dict[SessionId, _Held] = {}
        self._forgotten_epoch = 0

    def __len__(self) -> int:
        return len(self._held)

    def newest(self, session_id: SessionId) -> Lease | None:
        """The session's last lease, in force or not; None where it never had one, or was forgotten."""
        held = self._held.get(session_id)
        return None if held is None else held.lease

    def acquire(self, session_id: SessionId, owner: str, now: float) -> Lease | None:
        """A lease of a new epoch, or None while another owner's is in force; one's own is renewed instead."""
        held, place = self._held.get(session_id), None
        if held is None:
            lease = Lease(session_id, owner, LeaseEpoch(self._forgotten_epoch + 1), now + self._ttl_s, first=True)
        elif now < held.lease.expires_at:
            return self.renew(held.lease, now) if held.lease.owner == owner else None
        else:
            epoch = LeaseEpoch(held.lease.epoch + 1)
            lease = Lease(session_id, owner, epoch, now + self._ttl_s, held.ends(owner))
            place = held.place if owner == held.lease.owner else None
        self._held[session_id] = _Held(lease, place=place)
        return lease

    def renew(self, lease: Lease, now: float) -> Lease | None:
        """The lease with a later end, or None when it was lost: expired, released or another's by now."""
        held = self._newest(lease)
        if held is None or now >= held.lease.expires_at:
            return None
        held.lease = replace(held.lease, expires_at=max(held.lease.expires_at, now + self._ttl_s))
        return replace(lease, expires_at=held.lease.expires_at)

    def release(self, lease: Lease, now: float) -> None:
        """Ends the lease at once, if it is still in force, so that another owner need not wait."""
        held = self._newest(lease)
        if held is not None:
            held.lease = replace(held.lease, expires_at=min(held.lease.expires_at, now))
            held.released = True

    def note(self, lease: Lease, place: int | None) -> None:
        """Its owner is at that place now, or at none."""
        held = self._newest(lease)
        if held is not None:
            held.place = place

    def got_on(self, session_id: SessionId) -> None:
        """The session is beyond the places at which owners ended: they count no more."""
        held = self._held.get(session_id)
        if held is not None:
            held.lease = replace(held.lease, ends=NO_ENDS)

    def fence(self, session_id: SessionId, epoch: LeaseEpoch) -> LeaseLost | None:
        """Refuses a write of an epoch that is not the session's newest; time does not matter, only a successor does."""
        held = self._held.get(session_id)
        return None if held and held.lease.epoch == epoch else LeaseLost()

    def forget(self, session_id: SessionId) -> None:
        """The session is over: nobody will own it or write for it again."""
        held = self._held.pop(session_id, None)
        if held:
            self._forgotten_epoch = max(self._forgotten_epoch, held.lease.epoch)

    def check_integrity(self) -> None:
        """Each lease is of the session that it is kept for, and epochs are counted from 1."""
        for session_id, held in self._held.items():
            ensure(held.lease.session_id == session_id, "a lease is kept under its session")
            ensure(held.lease.epoch >= 1, "epochs are counted from 1")

    def _newest(self, lease: Lease) -> _Held | None:
        held = self._held.get(lease.session_id)
        return held if held is not None and held.lease.epoch == lease.epoch else None
