"""The end of a session at which its messages come out."""

from typing import Protocol

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.messages import ServerMessage


class Sink(Protocol):
    """Whoever receives a session's messages. Its methods must not block and must not call the session."""

    def send(self, message: ServerMessage) -> None:
        """Takes the next message."""
        ...

    def close(self, error: StreamScribeError | None) -> None:
        """No more messages come: the session is over, or another sink has it; call nothing on the session again."""
        ...
