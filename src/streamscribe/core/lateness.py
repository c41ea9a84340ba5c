"""Whose live segments wait too long for finalizers, which give tenants turns: one may be late alone."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from streamscribe.core.ids import SessionId, TenantId

LATE_SHARE, LATE_SESSIONS = 0.05, 2
"""A tenant is late when more than this share of its segments that wait is, of so many sessions: a few may be late by
themselves, as those of a finalizer that ended. It says nothing of others, who have their turns. Tenants of fewer
sessions each are judged together: a worker may see one session of each only, and be late with all."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A segment that waits, and whether it has for too long."""

    tenant: TenantId
    session: SessionId
    late: bool


def late_tenants(waiting: Iterable[Waiting]) -> frozenset[TenantId]:
    """Those of whom too much is late."""
    by_tenant: dict[TenantId, list[Waiting]] = {}
    for one in waiting:
        by_tenant.setdefault(one.tenant, []).append(one)
    by_group: dict[Hashable, list[Waiting]] = {}
    for tenant, of_it in by_tenant.items():
        group = tenant if len({one.session for one in of_it}) >= LATE_SESSIONS else None
        by_group.setdefault(group, []).extend(of_it)
    return frozenset(one.tenant for of_group in by_group.values() if _is_late(of_group) for one in of_group if one.late)


def _is_late(waiting: list[Waiting]) -> bool:
    late = [one for one in waiting if one.late]
    sessions = {(one.tenant, one.session) for one in late}
    return len(late) > LATE_SHARE * len(waiting) and len(sessions) >= LATE_SESSIONS
