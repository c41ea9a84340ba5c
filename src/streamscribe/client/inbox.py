"""Messages that came and were not read yet: guesses are merged, facts are kept, and there is a bound."""

import asyncio
from collections.abc import Hashable

from streamscribe.wire.native_server import AckMessage, HeartbeatMessage, ResultMessage, ServerWire

MAX_UNREAD = 4096


class Inbox:
    """A queue of server messages with one reader and one writer.

    A newer partial takes the place of an unread one of its segment, a final too; so do acks and heartbeats. At
    `max_unread` messages `put` waits, and the server feels it.
    """

    def __init__(self, max_unread: int = MAX_UNREAD) -> None:
        self._max_unread = max_unread
        self._messages: dict[Hashable, ServerWire] = {}
        self._count = 0
        self._over = False
        self._failure: Exception | None = None
        self._changed = asyncio.Condition()

    async def put(self, message: ServerWire) -> None:
        """Adds a message; waits while the inbox is full."""
        key = self._key(message)
        async with self._changed:
            self._messages.pop(key, None)
            await self._changed.wait_for(lambda: len(self._messages) < self._max_unread)
            if isinstance(message, ResultMessage) and message.is_final:
                self._messages.pop(("partial", message.segment_id), None)
            self._messages[key] = message
            self._changed.notify_all()

    async def finish(self, failure: Exception | None) -> None:
        """No more messages come; the reader is told after the last one."""
        async with self._changed:
            self._over, self._failure = True, failure
            self._changed.notify_all()

    async def get(self) -> ServerWire:
        """The oldest unread message. Raises StopAsyncIteration after the last, or what ended the session."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._messages or self._over)
            if self._messages:
                key = next(iter(self._messages))
                message = self._messages.pop(key)
                self._changed.notify_all()
                return message
            if self._failure is not None:
                raise self._failure
            raise StopAsyncIteration

    def _key(self, message: ServerWire) -> Hashable:
        match message:
            case ResultMessage(is_final=False):
                return ("partial", message.segment_id)
            case AckMessage() | HeartbeatMessage():
                return type(message)
        self._count += 1
        return self._count
