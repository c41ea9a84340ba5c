"""Whose newcomers wait, as finalizers are behind: a tenant's own lateness, or that of many small ones."""

from itertools import chain

import pytest

from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.lateness import Waiting, late_tenants


def of(tenant: str, sessions: int, each: int = 1, *, late: bool) -> list[Waiting]:
    names = [SessionId(f"{tenant}-{late}-{number}") for number in range(sessions)]
    return [Waiting(TenantId(tenant), name, late) for name in names for _ in range(each)]


@pytest.mark.parametrize(
    ("waiting", "late"),
    [
        ([], set()),
        ([of("acme", 9, late=False)], set()),
        ([of("acme", 1, 9, late=True)], set()),
        ([of("acme", 2, late=True)], {"acme"}),
        ([of("acme", 2, late=True), of("acme", 37, late=False)], {"acme"}),
        ([of("acme", 2, late=True), of("acme", 38, late=False)], set()),
        ([of("acme", 2, late=True), of("beta", 99, late=False)], {"acme"}),
        ([of("acme", 2, late=True), of("beta", 1, late=True), of("new", 1, late=False)], {"acme"}),
        ([of("acme", 1, 3, late=True), of("beta", 9, late=False)], set()),
    ],
)
def test_a_tenant_is_late_where_more_than_a_twentieth_of_its_segments_is_of_two_sessions_at_least(
    waiting: list[list[Waiting]], late: set[str]
) -> None:
    assert late_tenants(chain(*waiting)) == late


@pytest.mark.parametrize(("in_time", "are"), [(0, True), (398, True), (399, False)])
def test_many_tenants_of_one_late_session_each_are_late_together(in_time: int, are: bool) -> None:
    small = [of(f"small-{number}", 1, late=True) for number in range(21)]
    others = [of(f"other-{number}", 1, late=False) for number in range(in_time)]
    crowd = of("crowd", 500, late=False)
    late = late_tenants(chain(crowd, *small, *others))
    assert late == ({f"small-{number}" for number in range(21)} if are else set())
