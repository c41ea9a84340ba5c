"""The books that a hub keeps with other gateways, if there are any."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from streamscribe.core.errors import SessionNotFound
from streamscribe.core.messages import Resume
from streamscribe.core.records import SessionOpened
from streamscribe.core.session_io import SessionIdentity, SessionLimits
from streamscribe.core.session_past import SessionPast
from streamscribe.gateway.live_session import LiveSession
from streamscribe.ports import Tenant, Ticket


@dataclass(frozen=True, slots=True)
class Moved:
    """A session that has come from another gateway."""

    identity: SessionIdentity
    ticket: Ticket
    past: SessionPast


Admit = Callable[[Ticket], None]
"""Raises why the gateway cannot have one more session now."""


class Register(Protocol):
    """Who keeps sessions in books that gateways share. What is not a coroutine must not block."""

    def spoke(self, live: LiveSession) -> None:
        """A session that was let in here is in earnest: its client has said its first word."""
        ...

    def over(self, live: LiveSession) -> None:
        """It is over."""
        ...

    def left(self, live: LiveSession) -> None:
        """It is not here any more, and not over: another gateway has it, or will."""
        ...

    async def began(self, live: LiveSession, opened: SessionOpened) -> None:
        """Its first record is about to be published."""
        ...

    def heard(self, live: LiveSession) -> None:
        """Its worker has told something; asked each time."""
        ...

    def can_be_found(self, live: LiveSession) -> bool:
        """Whether another gateway could go on with it."""
        ...

    async def make_findable(self) -> None:
        """Tries to make it so for all sessions; returns when it is, and may take for ever."""
        ...

    async def has_moved(self, live: LiveSession) -> bool:
        """Whether another gateway has it by now, as far as that can be known."""
        ...

    async def take_over(self, tenant: Tenant, message: Resume, limits: SessionLimits, admit: Admit) -> Moved:
        """Brings a session here from another gateway; raises SessionNotFound, StoreUnavailable, BusUnavailable.

        `admit` is asked before the session is moved.
        """
        ...

    def took_over(self, live: LiveSession, moved: Moved) -> None:
        """It is here, and has told its client what that had missed, or waits for one that it can go on with."""
        ...


class NoRegister:
    """For a gateway that is alone."""

    def spoke(self, live: LiveSession) -> None:
        """Kept nowhere else."""

    def over(self, live: LiveSession) -> None:
        """Kept nowhere else."""

    def left(self, live: LiveSession) -> None:
        """Kept nowhere else."""

    async def began(self, live: LiveSession, opened: SessionOpened) -> None:
        """Kept nowhere else."""

    def heard(self, live: LiveSession) -> None:
        """Kept nowhere else."""

    def can_be_found(self, live: LiveSession) -> bool:
        """There is no other."""
        return False

    async def make_findable(self) -> None:
        """There is no other."""

    async def has_moved(self, live: LiveSession) -> bool:
        """There is no other."""
        return False

    async def take_over(self, tenant: Tenant, message: Resume, limits: SessionLimits, admit: Admit) -> Moved:
        """There is no other."""
        raise SessionNotFound

    def took_over(self, live: LiveSession, moved: Moved) -> None:
        """There is no other."""
