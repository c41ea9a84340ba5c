"""How much work may be inside at once: the books of a stage's door."""

from math import inf

from streamscribe.core.errors import Overloaded
from streamscribe.core.integrity import ensure
from streamscribe.core.waiting import ROUNDING_S, Bounds, Priority


class Gate:
    """Lets in what `Bounds` allow.

    What is let in is refused nowhere behind it: that would throw away what was computed for it.
    """

    def __init__(self, max_requests: int, max_audio_s: float = inf) -> None:
        self._bounds = Bounds(max_requests, max_audio_s)
        self._requests = 0
        self._audio_s = 0.0

    @property
    def requests(self) -> int:
        """How many are inside."""
        return self._requests

    @property
    def audio_s(self) -> float:
        """How much audio they have."""
        return self._audio_s

    def enter(self, priority: Priority, audio_s: float) -> Overloaded | None:
        """Lets a request in, or says that there is no room; who was let in leaves once."""
        refusal = self._bounds.refusal(priority, audio_s, requests=self._requests, inside_s=self._audio_s)
        if refusal is not None:
            return refusal
        self._requests += 1
        self._audio_s += audio_s
        return None

    def leave(self, audio_s: float) -> None:
        """A request of so much audio is out."""
        self._requests -= 1
        self._audio_s = self._audio_s - audio_s if self._requests else 0.0

    def check_integrity(self) -> None:
        """0 <= inside <= bound; nobody inside has no audio."""
        ensure(0 <= self._requests <= self._bounds.max_requests, "0 <= requests <= bound")
        ensure(self._audio_s >= -ROUNDING_S, "audio is not negative")
        ensure(self._requests > 0 or self._audio_s == 0, "an empty room has no audio")
