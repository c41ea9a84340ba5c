"""Identifiers as checked value types: what is not a valid id never becomes one."""

import re
from typing import ClassVar, NewType, Self

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")

ID_RULE = "1 to 64 characters of A-Z a-z 0-9 _ . : -, beginning with a letter or digit"


class _Id(str):
    """A string of 1 to 64 safe characters; raises ValueError for anything else."""

    __slots__ = ()
    _called: ClassVar[str]

    def __new__(cls, value: str) -> Self:
        if not _ID.match(value):
            raise ValueError(f"{cls._called} must be {ID_RULE}")
        return super().__new__(cls, value)


class TenantId(_Id):
    """The billing and isolation boundary."""

    _called = "a tenant's id"


class SessionId(_Id):
    """One client's logical stream; it survives reconnects."""

    _called = "a session's id"


class TraceId(_Id):
    """Joins what one session left in logs and traces."""

    _called = "a trace's id"


LeaseEpoch = NewType("LeaseEpoch", int)
"""Grows by one whenever a session changes its owner; writes of an older epoch are refused."""
