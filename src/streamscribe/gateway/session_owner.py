"""What a live session tells the hub that has it."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.records import SessionOpened

if TYPE_CHECKING:
    from streamscribe.gateway.live_session import LiveSession


class SessionOwner(Protocol):
    """What a live session needs of the hub."""

    def released(self, live: "LiveSession", failure: StreamScribeError | None) -> None:
        """The session is over, and why, if it failed; called exactly once."""
        ...

    def left(self, live: "LiveSession") -> None:
        """The session is not here any more, and not over; called instead of `released`."""
        ...

    def spoke(self, live: "LiveSession") -> None:
        """Its client has said its first word."""
        ...

    async def began(self, live: "LiveSession", opened: SessionOpened) -> None:
        """The session's first record is about to be published, as it is on the bus."""
        ...

    def stops(self, live: "LiveSession", waited_s: float) -> bool:
        """What it has said has no room on the bus, now or still; whether its client is to be told to slow down.

        A session that has waited too long is ended.
        """
        ...

    def goes_on(self, live: "LiveSession") -> None:
        """What it has said had room at once."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that outlives its caller, under the hub's ownership."""
        ...
