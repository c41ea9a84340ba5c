"""Partials: drafts of segments that are still open, as many as the models have time for beside the finals."""

import asyncio
from dataclasses import dataclass
from functools import partial

import numpy as np

from streamscribe.core.audio import to_ms, to_samples
from streamscribe.core.batching import Priority
from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.options import SessionOptions
from streamscribe.core.partial_window import PartialWindow
from streamscribe.models.ports import Hypothesis
from streamscribe.worker.finish import Finisher, words_of
from streamscribe.worker.segment import Segment, StreamTools, seconds, text_language
from streamscribe.worker.teller import Teller

REST = 1.0
"""A session's next draft waits so many times what the last one took, from its asking to its answer."""


QUIET = 0.01
"""Power below this share of the segment's loudest stretch (-20 dB) is silence."""


@dataclass(slots=True, eq=False)
class _Open:
    """An open segment. `drafted` is where the audio of its last draft ended, `loudest` the power of its loudest stretch
    between two drafts."""

    segment: Segment
    window: PartialWindow
    drafted: int
    loudest: float = 0.0

    @property
    def undrafted(self) -> int:
        """How much audio no draft has heard."""
        return self.segment.track.heard - self.drafted

    def brings_voice(self) -> bool:
        """Whether the audio since the last draft is about as loud as the segment was."""
        track = self.segment.track
        new = track.cut(self.drafted, track.heard)
        power = float(np.dot(new, new)) / len(new)
        self.loudest = max(self.loudest, power)
        return power > QUIET * self.loudest


class Drafts:
    """The drafts of one session, one at a time: what is shown early where no model recognises streams.

    A draft is due after `partial_interval_ms` of new audio that is not mere silence (for then the final is near); it
    also needs a place in the worker's budget. It is given up when its segment closes, dropped from the queue if it
    still waits there. One that fails is only missing: the final of the same audio says what is wrong.
    """

    def __init__(
        self, options: SessionOptions, tools: StreamTools, tasks: asyncio.TaskGroup, teller: Teller, finisher: Finisher
    ) -> None:
        self._options = options
        self._tools = tools
        self._budget = tools.budget
        self._tasks = tasks
        self._teller = teller
        self._finisher = finisher
        self._loop = asyncio.get_running_loop()
        self._interval = to_samples(tools.settings.partial_interval_ms)
        self._window = to_samples(tools.settings.partial_window_ms)
        self._open: dict[Segment, _Open] = {}
        self._drafting: Segment | None = None
        self._task: asyncio.Task[None] | None = None
        self._not_before_s = 0.0

    @property
    def steps(self) -> frozenset[object]:
        """The draft that is being made."""
        return frozenset() if self._task is None else frozenset((self._task,))

    def opened(self, segment: Segment) -> None:
        """The segment may be drafted from now on."""
        window = PartialWindow(to_ms(segment.audio_start), self._tools.settings.partial_window_ms)
        self._open[segment] = _Open(segment, window, drafted=segment.start)

    async def heard(self) -> None:
        """Begins the draft that is most overdue of those that bring voice, if one may begin now."""
        if self._drafting is not None or self._budget.full:  # before any audio is looked at: when all are busy too
            return
        if self._loop.time() < self._not_before_s:
            return
        for one in sorted(self._open.values(), key=lambda one: -one.undrafted):
            if one.undrafted < self._interval:
                return
            if one.brings_voice() and self._budget.take():
                one.drafted = one.segment.track.heard
                self._drafting = one.segment
                self._task = self._tasks.create_task(self._draft(one))
                self._task.add_done_callback(partial(self._over, self._loop.time()))
                return

    async def closed(self, segment: Segment, closed: SegmentClosed) -> None:
        """No partial of the segment is told any more."""
        del self._open[segment]
        if self._drafting is segment and self._task is not None:
            self._task.cancel()
            self._drafting = self._task = None

    def caught_up(self) -> None:
        """Nothing waits for company here."""

    async def _draft(self, one: _Open) -> None:
        segment, track = one.segment, one.segment.track
        end = track.heard
        start_ms = one.window.begin(to_ms(end))
        start = max(segment.audio_start, to_samples(start_ms))
        samples = track.cut(start, end)
        words = 2 * len(samples) > self._window  # a place to cut will be needed soon
        try:
            hypothesis = await segment.models.recognition.stage.submit(
                segment.draft_request(samples, self._options, words=words),
                priority=Priority.LOW,
                audio_s=seconds(len(samples)),
                share=segment.share,
            )
        except StreamScribeError:
            return
        if hypothesis.text:  # else what was shown stands
            await self._tell(one, hypothesis, start, end)

    def _over(self, asked_s: float, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._drafting = self._task = None
        elapsed_s = self._loop.time() - asked_s
        self._budget.give_back(None if task.cancelled() else elapsed_s)
        self._not_before_s = self._loop.time() + REST * elapsed_s

    async def _tell(self, one: _Open, hypothesis: Hypothesis, start: int, end: int) -> None:
        whole = one.window.read(hypothesis.text, words_of(hypothesis, start))
        text = await self._finisher.draft(whole, text_language(self._options, hypothesis))
        self._teller.partial(one.segment, text, end, hypothesis, self._loop.time())
