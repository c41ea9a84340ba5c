"""Who may refuse a session, and who counts: what a hub asks of the rest of its process."""

from collections.abc import Callable
from secrets import token_hex
from typing import Protocol

from streamscribe.core.errors import Draining, StreamScribeError
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.options import SessionOptions

DRAINING_RETRY_S = 5.0


def random_id(tenant: TenantId) -> SessionId:
    """An id that nobody can guess, of whichever tenant's session."""
    return SessionId(token_hex(16))


def going_down() -> Draining:
    """What new sessions hear of a gateway that drains, and old ones at its end."""
    return Draining(retry_after_s=DRAINING_RETRY_S)


class HubObserver(Protocol):
    """Who counts what happens to sessions."""

    def session_opened(self, tenant: TenantId) -> None:
        """A session began."""
        ...

    def session_released(self, tenant: TenantId) -> None:
        """A session is over."""
        ...

    def session_refused(self, error: StreamScribeError) -> None:
        """A session was not let in, or a resume found nothing."""
        ...

    def session_shed(self, reason: str) -> None:
        """A session was not let in because of the load; `session_refused` hears of it too."""
        ...

    def stopped_watched(self, count: Callable[[], int]) -> None:
        """How many live sessions are read no further is to be asked for when wanted, from any thread."""
        ...

    def session_failed(self, error: StreamScribeError) -> None:
        """A session ended with an error, whether its client could be told or not."""
        ...


class Admission(Protocol):
    """Who may refuse a session for other reasons than a quota."""

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        """Counts a session (by its id on the bus), or says why not and counts nothing; at once.

        One that `yields` leaves a reserve to tenants with priority. One that `resumes` was let in before, at another
        gateway: it is counted, unless nobody's audio could be carried.
        """
        ...

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        """The session that was counted with these options is over."""
        ...


class OpenDoor:
    """Refuses nobody."""

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        """Yes."""
        return None

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        """Nothing was counted."""
