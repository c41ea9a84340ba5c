"""What waits for one client to read: facts in order, guesses merged, so that a slow reader costs a bounded memory."""

from collections.abc import Hashable

from streamscribe.core.integrity import ensure
from streamscribe.core.messages import (
    Ack,
    Heartbeat,
    HotwordsTold,
    ResultSent,
    RuleHitsSent,
    ServerMessage,
    SlowDown,
)

_SMALL_BYTES = 128
_RESULT_BYTES = 320
_WORD_BYTES = 96
_HIT_BYTES = 320
"""Estimates of encoded sizes; text counts three bytes a character."""


class Outbox:
    """A queue of server messages in which the latest ack, heartbeat and partial of a segment replace earlier ones.

    Finals, errors and all else are never dropped: beyond `max_bytes` the outbox is full, refuses everything from then
    on, and its owner ends the session. Versions leave in growing order: a newer partial goes to the end.
    """

    __slots__ = ("_count", "_max_bytes", "_waiting", "full", "size_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.size_bytes = 0
        self.full = False
        self._max_bytes = max_bytes
        self._waiting: dict[Hashable, ServerMessage] = {}
        self._count = 0

    def put(self, message: ServerMessage) -> None:
        """Takes the message, merges it with what it replaces, or sets `full`."""
        if self.full:
            return
        if isinstance(message, (Ack, Heartbeat, SlowDown)):
            self._replace(type(message).__name__, message)
        elif isinstance(message, ResultSent):
            segment = message.result.segment_id
            self._drop(segment)
            self._replace(self._unique() if message.result.is_final else segment, message)
        else:
            self._replace(self._unique(), message)
        if self.size_bytes > self._max_bytes:
            self.full = True

    def pop(self) -> ServerMessage | None:
        """The next message to send; None when nothing waits."""
        for key in self._waiting:
            return self._drop(key)
        return None

    def check_integrity(self) -> None:
        """size = sum of what waits, and within the bound unless full."""
        ensure(self.size_bytes == sum(map(_size_bytes, self._waiting.values())), "size == sum of what waits")
        ensure(self.full or self.size_bytes <= self._max_bytes, "within the bound unless full")

    def _unique(self) -> Hashable:
        self._count += 1
        return ("fact", self._count)

    def _replace(self, key: Hashable, message: ServerMessage) -> None:
        old = self._waiting.get(key)
        self.size_bytes += _size_bytes(message) - (_size_bytes(old) if old is not None else 0)
        self._waiting[key] = message

    def _drop(self, key: Hashable) -> ServerMessage | None:
        message = self._waiting.pop(key, None)
        if message is not None:
            self.size_bytes -= _size_bytes(message)
        return message


def _size_bytes(message: ServerMessage) -> int:
    if isinstance(message, ResultSent):
        return _RESULT_BYTES + 3 * len(message.result.text) + _WORD_BYTES * len(message.result.words)
    if isinstance(message, RuleHitsSent):
        return _SMALL_BYTES + _HIT_BYTES * len(message.hits)
    if isinstance(message, HotwordsTold):
        phrases = [*message.accepted, *(f"{one.phrase}{one.reason}" for one in message.ignored)]
        return _SMALL_BYTES + sum(8 + 3 * len(phrase) for phrase in phrases)
    return _SMALL_BYTES
