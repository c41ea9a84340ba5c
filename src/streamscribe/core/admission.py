"""Who may enter, and how fast a session may speak: quotas, the models' load, and the two rates of one session."""

from collections import deque
from enum import StrEnum
from math import inf

from streamscribe.core.errors import Overloaded, QuotaExceeded, StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.load import Gauge

QUOTA_RETRY_S = 1.0
"""When a refused client may try again: a session of its tenant may have ended by then."""


class _Bucket:
    """A leaky bucket: `ahead` is what came beyond the rate; it leaks at the rate and never falls below zero."""

    def __init__(self, rate_per_s: float, burst: float, bound: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._bound = bound
        self._ahead = 0.0
        self._at = -inf

    def admit(self, amount: float, now: float) -> float | None:
        """The time until which nothing more may be read (at most `now`: go on).

        None when `amount` would pass the hard bound; it is not counted then.
        """
        ahead = max(0.0, self._ahead - (now - self._at) * self._rate_per_s) if now > self._at else self._ahead
        if ahead + amount > self._bound:
            return None
        self._at = max(now, self._at)
        self._ahead = ahead + amount
        return now + max(0.0, self._ahead - self._burst) / self._rate_per_s

    def check_integrity(self) -> None:
        """0 <= ahead <= bound."""
        ensure(0.0 <= self._ahead <= self._bound, "0 <= ahead <= bound")


class AudioRate(_Bucket):
    """Audio seconds of one session: `max_rate` times real time after a burst of `burst_s`.

    A well-behaved reader that pauses as told never gets more than one message beyond the burst; one that comes
    `max_burst_s` ahead all the same is beyond the hard bound.
    """

    def __init__(self, max_rate: float, burst_s: float, max_burst_s: float) -> None:
        super().__init__(max_rate, burst_s, max(burst_s, max_burst_s))


class ChunkRate(_Bucket):
    """Messages of one session: `max_per_s`, of which one second's worth may come at once; paced, never refused."""

    def __init__(self, max_per_s: float) -> None:
        super().__init__(max_per_s, max_per_s, inf)


class SessionQuota:
    """Counts open sessions, of each tenant and of the process."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._total = 0
        self._of_tenant: dict[TenantId, int] = {}

    @property
    def total(self) -> int:
        """Open sessions of all tenants."""
        return self._total

    def of(self, tenant: TenantId) -> int:
        """Open sessions of one tenant."""
        return self._of_tenant.get(tenant, 0)

    def admit(self, tenant: TenantId, limit: int | None) -> StreamScribeError | None:
        """Counts one more session of a tenant that may have `limit` (None: it was counted elsewhere), or says why not
        and counts nothing."""
        if limit is not None and self.of(tenant) >= limit:
            return QuotaExceeded(retry_after_s=QUOTA_RETRY_S)
        if self._total >= self._max_sessions:
            return Overloaded(retry_after_s=QUOTA_RETRY_S)
        self._of_tenant[tenant] = self.of(tenant) + 1
        self._total += 1
        return None

    def release(self, tenant: TenantId) -> None:
        """Gives back what one `admit` counted; raises AssertionError for a tenant without sessions."""
        ensure(self.of(tenant) > 0, "a released session was admitted")
        self._of_tenant[tenant] -= 1
        self._total -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]

    def check_integrity(self) -> None:
        """The tenants' counts are positive and sum up to the total, which is within the limit."""
        ensure(sum(self._of_tenant.values()) == self._total, "sum of tenants == total")
        ensure(all(count > 0 for count in self._of_tenant.values()), "no tenant is kept without sessions")
        ensure(self._total <= self._max_sessions, "total <= max_sessions")


MINUTE_S = 60.0
_SWEEP_AT = 64


class SessionRate:
    """The sessions that each tenant began within the last minute: at most as many as it may.

    Memory is bounded by what all tenants may begin in a minute, or twice that.
    """

    def __init__(self) -> None:
        self._begun: dict[TenantId, deque[float]] = {}
        self._sweep_at = _SWEEP_AT

    def refusal(self, tenant: TenantId, limit: int, now: float) -> QuotaExceeded | None:
        """Why a tenant that may begin `limit` a minute may not begin one now, and when it may."""
        begun = self._begun.get(tenant)
        if begun is None or len(begun) < limit or now >= begun[-limit] + MINUTE_S:
            return None
        return QuotaExceeded(
            f"at most {limit} sessions may begin in a minute", retry_after_s=begun[-limit] + MINUTE_S - now
        )

    def begin(self, tenant: TenantId, now: float) -> None:
        """A session began, for which there was no refusal."""
        if len(self._begun) >= self._sweep_at:
            self._begun = {one: begun for one, begun in self._begun.items() if now < begun[-1] + MINUTE_S}
            self._sweep_at = max(_SWEEP_AT, 2 * len(self._begun))
        begun = self._begun.setdefault(tenant, deque())
        while begun and now >= begun[0] + MINUTE_S:
            begun.popleft()
        begun.append(now)

    def take_back(self, tenant: TenantId) -> None:
        """The session that began last was none."""
        begun = self._begun.get(tenant)
        if begun:
            begun.pop()
            if not begun:
                del self._begun[tenant]

    def check_integrity(self) -> None:
        """Each tenant's sessions began in order."""
        ensure(all(list(begun) == sorted(begun) for begun in self._begun.values()), "sessions began in order")


EASED = 0.93
"""After a refusal both bounds are so much lower, until somebody is let in: the door does not flap."""


class Shed(StrEnum):
    """Why the load lets nobody in."""

    UTILISATION = "utilisation"
    LAG = "lag"
    RUSH = "rush"


class LoadAdmission:
    """Lets live sessions in while no model would be busier than `max_utilisation` with them, and chunks are in time.

    Tenants that yield are held to a utilisation lower by `priority_reserve`: what lies between is the others'.

    Whoever comes first is let in: with nobody there, what was measured is past. Newcomers are not measured yet, so at
    one time there may be `max_newcomers` of them, or as many as are settled: a rush doubles every two seconds at most,
    as TCP's slow start does with round trips. Looks at figures only: no work is begun for one that is refused.
    """

    def __init__(
        self,
        gauge: Gauge,
        max_utilisation: float,
        max_lag_s: float,
        max_newcomers: int,
        priority_reserve: float = 0.0,
    ) -> None:
        self._gauge = gauge
        self._max_utilisation = max_utilisation
        self._max_lag_s = max_lag_s
        self._max_newcomers = max_newcomers
        self._reserve = priority_reserve
        self._refusing: set[bool] = set()

    def admit(self, voices: int, now: float, *, yields: bool = False) -> Shed | None:
        """Counts so many voices more, or says why not and counts nothing; those that `yields` leave a reserve."""
        shed = self._shed(voices, now, yields=yields) if self._gauge.voices else None
        if shed is None:
            self._refusing.discard(yields)
        else:
            self._refusing.add(yields)
        if shed is None:
            self._gauge.add_voices(voices, now)
        return shed

    def release(self, voices: int, now: float) -> None:
        """Gives back what one `admit` counted."""
        self._gauge.add_voices(-voices, now)

    def _shed(self, voices: int, now: float, *, yields: bool) -> Shed | None:
        newcomers = self._gauge.newcomers(now)
        if newcomers + voices > max(self._max_newcomers, self._gauge.voices - newcomers):
            return Shed.RUSH
        share = EASED if yields in self._refusing else 1.0
        most = self._max_utilisation * (1 - self._reserve if yields else 1.0)
        for name in self._gauge.names():
            if self._gauge.lag_p95_s(name, now) > share * self._max_lag_s:
                return Shed.LAG
            if self._gauge.predicted(name, voices, now) > share * most:
                return Shed.UTILISATION
        return None
