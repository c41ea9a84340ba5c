"""How much work may be inside at once: the books of a stage's door."""

from math import inf

from streamscribe.core.errors import Overloaded
from streamscribe.core.integrity import ensure
from streamscribe.core.waiting import BULK_SHARE, OVERLOAD_RETRY_S, ROUNDING_S, Priority


class Gate:
    """Lets in at most so many requests and seconds of audio; a single request of any length is let in.

    What is let in is refused nowhere behind it: that would throw away what was computed for it.
    """

    def __init__(self, max_requests: int, max_audio_s: float = inf) -> None:
        self._max_requests = max_requests
        self._max_audio_s = max_audio_s
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
        share = BULK_SHARE if priority >= Priority.BULK else 1.0
        too_long = self._requests and self._audio_s + audio_s > self._max_audio_s * share + ROUNDING_S
        if too_long or self._requests >= self._max_requests * share:
            return Overloaded(retry_after_s=OVERLOAD_RETRY_S)
        self._requests += 1
        self._audio_s += audio_s
        return None

    def leave(self, audio_s: float) -> None:
        """A request of so much audio is out."""
        self._requests -= 1
        self._audio_s = self._audio_s - audio_s if self._requests else 0.0

    def check_integrity(self) -> None:
        """0 <= inside <= bound; nobody inside has no audio."""
        ensure(0 <= self._requests <= self._max_requests, "0 <= requests <= bound")
        ensure(self._audio_s >= -ROUNDING_S, "audio is not negative")
        ensure(self._requests > 0 or self._audio_s == 0, "an empty room has no audio")
