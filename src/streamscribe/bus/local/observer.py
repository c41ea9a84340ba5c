"""Who watches the local bus."""

from typing import Protocol

from streamscribe.core.ids import SessionId
from streamscribe.core.records import SessionOpened


class LocalBusObserver(Protocol):
    """Who counts what happens to sessions between processes; must not block."""

    def over(self, session_id: SessionId) -> None:
        """The bus has forgotten a session that it knew: its place at its worker is free."""
        ...

    def taken_over(self, opened: SessionOpened) -> None:
        """The session's worker is gone: it was placed again, or waits."""
        ...

    def quarantined(self, opened: SessionOpened, index: int) -> None:
        """Workers ended by the session, the last at or before this record; it has failed and is not tried again."""
        ...

    def fenced(self) -> None:
        """An event of a worker that had lost its sessions was dropped."""
        ...


class Unobserved:
    """Counts nothing."""

    def over(self, session_id: SessionId) -> None:
        """Nothing."""

    def taken_over(self, opened: SessionOpened) -> None:
        """Nothing."""

    def quarantined(self, opened: SessionOpened, index: int) -> None:
        """Nothing."""

    def fenced(self) -> None:
        """Nothing."""
