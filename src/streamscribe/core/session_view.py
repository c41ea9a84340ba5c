"""Sessions for the engineer on call."""

from dataclasses import dataclass

from streamscribe.core.ids import LeaseEpoch, SessionId, TenantId
from streamscribe.core.session_table import Stage


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session for the engineer on call; times in seconds by the store's clock, None where there is nothing to tell.

    `gateway` and what follows it is as its gateway last told, `told_s` ago. `owner` has the lease for `lease_s` more;
    it is owner number `owners`. From `checkpoint_ms`, saved `saved_s` ago, another could go on; these `models` heard it
    until then.
    """

    session_id: SessionId
    age_s: float
    tenant_id: TenantId | None = None
    called: SessionId | None = None
    gateway: str | None = None
    stage: Stage | None = None
    received_ms: int | None = None
    processed_ms: int | None = None
    told_s: float | None = None
    owner: str | None = None
    lease_s: float | None = None
    epoch: LeaseEpoch | None = None
    owners: int = 0
    checkpoint_ms: int | None = None
    saved_s: float | None = None
    models: tuple[str, ...] = ()

    @property
    def lag_ms(self) -> int | None:
        """Audio received and not yet processed."""
        if self.received_ms is None or self.processed_ms is None:
            return None
        return max(0, self.received_ms - self.processed_ms)


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, of `total`; those that nobody has spoken of for longest come first."""

    total: int
    sessions: tuple[SessionView, ...]
