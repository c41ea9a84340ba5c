"""The fake models in stages that run in the event loop: a step takes virtual time, and no thread."""

import asyncio
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from streamscribe.core.batching import Batcher, BatchPolicy, Priority, Waiting
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.models.fake.streaming import FakeStreamingRecognizer
from streamscribe.models.fake.voice_activity import FakeVoiceActivityDetector
from streamscribe.models.pool import FirstPass, Models, Recognition
from streamscribe.models.ports import Origin, SegmentRequest
from tests.worker.takeover import CountsHotwords

IsDeadlySegment = Callable[[Origin], bool]
"""Whether who hears a segment ends in the step for it."""
DEADLY_STEP_S = (0.0, 0.2, 4.0)
"""How long a step may take that ends its process: also longer than all that is done meanwhile."""


class InlineStage:
    """As `models.replica.Replica`, with its books (`core.batching`), but its steps run in the loop.

    A step's answers come after a random time of at most `cost_s`; what they change in a stream's state happens then.
    """

    warmup_s = 0.0
    stalled = False
    ready = True

    def __init__(
        self,
        name: str,
        step: Callable[[Sequence[Any]], Sequence[Any]],
        policy: BatchPolicy,
        rng: random.Random,
        cost_s: float,
    ) -> None:
        self.name = name
        self.policy = policy
        self.population = 0
        self.lag_s = 0.0
        self._step = step
        self._rng = rng
        self._cost_s = cost_s
        self._batcher = Batcher(policy)
        self._waiting: dict[int, tuple[Any, asyncio.Future[Any]]] = {}
        self._next_id = 0
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._stopped: ModelUnavailable | None = None
        self._is_deadly: Callable[[Any], bool] = lambda request: False
        self._end: Callable[[], None] = lambda: None

    @property
    def parts(self) -> tuple["InlineStage", ...]:
        return (self,)

    @property
    def inflight(self) -> int:
        return self._batcher.inflight

    def start(self) -> None:
        """It is warm."""

    def wait_ready(self) -> None:
        """It is warm."""

    def outage(self) -> ModelUnavailable | None:
        return self._stopped

    def ends_at(self, is_deadly: Callable[[Any], bool], end: Callable[[], None]) -> None:
        """Its process has its `end` in a step with what is deadly."""
        self._is_deadly, self._end = is_deadly, end

    def stop(self) -> None:
        """As a thread that has ended: what waits fails, and all that comes."""
        self._stopped = ModelUnavailable("the model has stopped")
        for item in list(self._waiting):
            _, answer = self._waiting[item]
            if not answer.done():
                answer.set_exception(self._stopped)

    def fail_if_stalled(self) -> None:
        """It never stalls."""

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def submit(
        self,
        request: Any,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        since_s: float | None = None,
        patient: bool = False,
    ) -> Any:
        if self._stopped is not None:
            raise self._stopped
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        item = Waiting(self._next_id, priority, audio_s, loop.time(), group, exclusive, None, share)
        self._next_id += 1
        if refused := self._batcher.add(item):
            raise refused
        self._waiting[item.id] = request, answer
        self._run_if_due()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._batcher.cancel(item.id):
                del self._waiting[item.id]
            raise

    def _run_if_due(self) -> None:
        if self._busy:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        crowd = max(self.population, len(self._batcher))
        if batch := self._batcher.take(loop.time(), crowd):
            self._busy = True
            if any(self._is_deadly(self._waiting[item.id][0]) for item in batch):
                self._timer = loop.call_later(self._rng.choice(DEADLY_STEP_S), self._end)
            else:
                self._timer = loop.call_later(self._rng.uniform(0, self._cost_s), self._finish, batch)
        elif (due := self._batcher.next_timer(crowd)) is not None:
            self._timer = loop.call_at(due, self._run_if_due)

    def _finish(self, batch: tuple[Waiting, ...]) -> None:
        self._busy, self._timer = False, None
        asked = [self._waiting.pop(item.id) for item in batch]
        self._batcher.finish(batch)
        for (_, answer), result in zip(asked, self._step([request for request, _ in asked]), strict=True):
            if not answer.done():
                answer.set_result(result)
        self.check_integrity()
        self._run_if_due()

    def check_integrity(self) -> None:
        self._batcher.check_integrity()


def models_of(rng: random.Random, *, first_pass: bool, cost_s: float, elsewhere: Recognition | None = None) -> Models:
    """The fakes of one worker process; whole segments may be recognised elsewhere."""

    def stage(name: str, step: Callable[[Sequence[Any]], Sequence[Any]], size: int) -> Any:
        return InlineStage(name, step, BatchPolicy(max_batch_size=size, wait_ms=1), rng, cost_s)

    vad, recognizer, streams = FakeVoiceActivityDetector(), CountsHotwords(), FakeStreamingRecognizer()
    return Models(
        vad,
        stage("vad", vad.step, 64),
        elsewhere or Recognition(recognizer, stage("recognition", recognizer.recognize, 8)),
        FirstPass(streams, stage("first_pass", streams.step, 64)) if first_pass else None,
    )


def ends_at(models: Models, is_deadly: IsDeadlySegment, end: Callable[[], None]) -> None:
    """Their process has its `end` in a step for a whole segment that is deadly."""

    def kills(request: SegmentRequest) -> bool:
        return not request.draft and request.origin is not None and is_deadly(request.origin)

    stage: Any = models.recognition.current.stage
    stage.ends_at(kills, end)
