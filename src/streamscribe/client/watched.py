"""A WebSocket whose other end may be gone without a word: it knows how long nothing has come."""

import asyncio
from typing import Any

from websockets.asyncio.client import ClientConnection


class WatchedConnection(ClientConnection):
    """Notes when bytes came last. Time in which nobody here reads does not count."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """The other end lives."""
        self._heard_at = self.loop.time()
        super().data_received(data)

    async def break_when_silent(self, timeout_s: float) -> None:
        """Breaks the connection, as a network would, once nothing has come for so long; returns then only."""
        while (left_s := self._heard_at + timeout_s - self.loop.time()) > 0:
            await asyncio.sleep(left_s)
            if not self.transport.is_reading():
                self._heard_at = self.loop.time()
        self.transport.abort()
