"""What a stage without steps reports, in the terms of one with steps."""

from collections.abc import Callable

from streamscribe.core.batching import Waiting
from streamscribe.models.replica import StepReport


class Reports:
    """Counts as one step as many requests as run side by side when it ends, and the time since the one before.

    So the sum of all steps is the time in which anything ran, and work by time is the throughput.
    """

    def __init__(self, name: str, limit: int, on_step: Callable[[StepReport], None]) -> None:
        self._name = name
        self._limit = limit
        self._on_step = on_step
        self._since_s = 0.0
        self._wait_s = 0.0
        self._ended: list[Waiting] = []
        self._failed = 0
        self._out_of_memory = 0

    def ran_out_of_memory(self) -> None:
        """What runs has failed for want of memory."""
        self._out_of_memory += 1

    def began(self, item: Waiting, now: float, running: int) -> None:
        """A request has got room, `running` of them by now."""
        if running == 1:
            self._since_s = now
        self._wait_s = max(self._wait_s, now - item.arrived)

    def ended(
        self, item: Waiting, now: float, running: int, take_asked: Callable[[], tuple[int, float]], *, failed: bool
    ) -> None:
        """A request has left, `running` are left; what live sessions asked for is taken (`Batcher.take_asked`)."""
        self._ended.append(item)
        self._failed += failed
        if len(self._ended) < running:
            return
        live_asked, live_asked_s = take_asked()
        self._on_step(
            StepReport(
                name=self._name,
                batch_size=len(self._ended),
                queue_wait_s=self._wait_s,
                step_s=now - self._since_s,
                audio_s=sum(one.audio_s for one in self._ended),
                failed=self._failed,
                live=sum(one.live for one in self._ended),
                batch_limit=self._limit,
                out_of_memory=self._out_of_memory,
                live_asked=live_asked,
                live_asked_s=live_asked_s,
            )
        )
        self._since_s, self._wait_s, self._ended = now, 0.0, []
        self._failed = self._out_of_memory = 0
