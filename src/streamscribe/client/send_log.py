"""What a client has sent and may have to send again after a broken connection."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class Sent:
    """A frame and its place: audio at its own sequence, a control message at that of the audio behind it."""

    position: int
    frame: bytes | str
    size_bytes: int = 0
    marker: str | None = None
    connection: int = -1
    """The number of the connection that has carried it."""


class SendLog:
    """Keeps audio until it is acknowledged, flushes until they are answered, and the rest until it has surely arrived.

    Bounded by its user, who adds no audio while it is `full`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._audio: deque[Sent] = deque()
        self._controls: list[Sent] = []
        self._bytes = 0
        self._next = 0
        self.acked: int | None = None

    @property
    def full(self) -> bool:
        """Whether more audio must wait for acks."""
        return self._bytes >= self._max_bytes

    @property
    def waits(self) -> bool:
        """Whether audio was not acknowledged yet."""
        return bool(self._audio)

    @property
    def next_sequence(self) -> int:
        """The sequence of the next audio."""
        return self._next

    def audio(self, frame: bytes) -> Sent:
        """Adds the frame of the next sequence."""
        sent = Sent(self._next, frame, len(frame))
        self._audio.append(sent)
        self._bytes += sent.size_bytes
        self._next += 1
        return sent

    def control(self, text: str, marker: str | None = None) -> Sent:
        """Adds a control message behind the audio so far; a flush with its marker."""
        sent = Sent(self._next, text, marker=marker)
        self._controls.append(sent)
        return sent

    def ack(self, sequence: int) -> None:
        """All audio up to `sequence` is safe, and so is what was sent before it."""
        self.acked = sequence
        while self._audio and self._audio[0].position <= sequence:
            self._bytes -= self._audio.popleft().size_bytes
        self._controls = [sent for sent in self._controls if sent.marker is not None or sent.position > sequence]

    def flushed(self, marker: str) -> None:
        """The flush with this marker has been answered."""
        for sent in self._controls:
            if sent.marker == marker:
                self._controls.remove(sent)
                return

    def replay(self, next_sequence: int) -> Iterator[Sent]:
        """What a server that goes on at `next_sequence` has not seen, in order; unanswered flushes are asked again."""
        controls = [sent for sent in self._controls if sent.marker is not None or sent.position >= next_sequence]
        audio = [sent for sent in self._audio if sent.position >= next_sequence]
        yield from sorted(controls + audio, key=lambda sent: (sent.position, isinstance(sent.frame, bytes)))
