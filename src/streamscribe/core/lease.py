"""Who may work on a session: leases that end, and epochs by which a former owner's writes are refused (law 2)."""

from dataclasses import dataclass

from streamscribe.core.errors import LeaseLost
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.integrity import ensure


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of `owner` to a session until `expires_at`, unless it is renewed."""

    session_id: SessionId
    owner: str
    epoch: LeaseEpoch
    expires_at: float


class LeaseTable:
    """All leases, each of `ttl_s` seconds. A session has at most one owner; its epoch grows by one with each change.

    A lease that has expired or was released stays in the table until another owner comes or the session is
    forgotten. An unknown session begins beyond all epochs of those that were forgotten: none ever repeats.
    """

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._leases: dict[SessionId, Lease] = {}
        self._forgotten_epoch = 0

    def __len__(self) -> int:
        return len(self._leases)

    def newest(self, session_id: SessionId) -> Lease | None:
        """The session's last lease, in force or not; None where it never had one, or was forgotten."""
        return self._leases.get(session_id)

    def acquire(self, session_id: SessionId, owner: str, now: float) -> Lease | None:
        """A lease of a new epoch, or None while another owner's is in force; one's own is renewed instead."""
        held = self._leases.get(session_id)
        if held and now < held.expires_at:
            return self.renew(held, now) if held.owner == owner else None
        epoch = LeaseEpoch((held.epoch if held else self._forgotten_epoch) + 1)
        return self._grant(Lease(session_id, owner, epoch, now + self._ttl_s))

    def renew(self, lease: Lease, now: float) -> Lease | None:
        """The lease with a later end, or None when it was lost: expired, released or another's by now."""
        held = self._leases.get(lease.session_id)
        if not held or held.epoch != lease.epoch or now >= held.expires_at:
            return None
        return self._grant(Lease(held.session_id, held.owner, held.epoch, max(held.expires_at, now + self._ttl_s)))

    def release(self, lease: Lease, now: float) -> None:
        """Ends the lease at once, if it is still in force, so that another owner need not wait."""
        held = self._leases.get(lease.session_id)
        if held and held.epoch == lease.epoch and now < held.expires_at:
            self._grant(Lease(held.session_id, held.owner, held.epoch, now))

    def fence(self, session_id: SessionId, epoch: LeaseEpoch) -> LeaseLost | None:
        """Refuses a write of an epoch that is not the session's newest; time does not matter, only a successor does."""
        held = self._leases.get(session_id)
        return None if held and held.epoch == epoch else LeaseLost()

    def forget(self, session_id: SessionId) -> None:
        """The session is over: nobody will own it or write for it again."""
        held = self._leases.pop(session_id, None)
        if held:
            self._forgotten_epoch = max(self._forgotten_epoch, held.epoch)

    def check_integrity(self) -> None:
        """Each lease is of the session that it is kept for, and epochs are counted from 1."""
        for session_id, lease in self._leases.items():
            ensure(lease.session_id == session_id, "a lease is kept under its session")
            ensure(lease.epoch >= 1, "epochs are counted from 1")

    def _grant(self, lease: Lease) -> Lease:
        self._leases[lease.session_id] = lease
        return lease
