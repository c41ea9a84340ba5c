"""The contract between a connection and the protocol its client speaks."""

from typing import Protocol

from streamscribe.core.messages import ClientMessage, ServerMessage


class Dialect(Protocol):
    """Translates one connection's frames; pure, never raises for what a peer sent (it returns `Invalid`).

    A dialect may keep state for its connection (declared format, carried bytes, what it has sent so far).
    """

    reusable: bool
    """Whether a new session may follow on the connection after one has closed without an error."""

    def decode_text(self, text: str) -> list[ClientMessage]:
        """Translates one text frame."""
        ...

    def decode_binary(self, data: bytes) -> list[ClientMessage]:
        """Translates one binary frame."""
        ...

    def encode(self, message: ServerMessage) -> list[str]:
        """Text frames for one message; none where the protocol has no word for it."""
        ...
