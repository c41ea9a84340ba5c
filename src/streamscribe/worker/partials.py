"""Partials: drafts of segments that are still open, as many as the models have time for beside the finals."""

import asyncio
from collections.abc import Iterable
from functools import partial

import numpy as np

from streamscribe.core.audio import to_ms, to_samples
from streamscribe.core.batching import Priority
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.options import SessionOptions
from streamscribe.core.results import Word
from streamscribe.models.ports import Hypothesis
from streamscribe.worker.segment import Segment, StreamTools, seconds, text_language
from streamscribe.worker.teller import Teller
from streamscribe.worker.track import AudioTrack

REST = 1.0
"""A session's next draft waits so many times what the last one took, from its asking to its answer."""


QUIET = 0.01
"""Power below this share of the segment's loudest stretch (-20 dB) is silence."""


class Drafts:
    """The drafts of one session, one at a time.

    A draft is due after `partial_interval_ms` of new audio that is not mere silence (for then the final is near); it
    also needs a place in the worker's budget. It is given up when its segment closes, dropped from the queue if it
    still waits there. One that fails is only missing: the final of the same audio says what is wrong.
    """

    def __init__(self, options: SessionOptions, tools: StreamTools, tasks: asyncio.TaskGroup, teller: Teller) -> None:
        self._options = options
        self._tools = tools
        self._budget = tools.budget
        self._tasks = tasks
        self._teller = teller
        self._loop = asyncio.get_running_loop()
        self._interval = to_samples(tools.settings.partial_interval_ms)
        self._window = to_samples(tools.settings.partial_window_ms)
        self._drafting: Segment | None = None
        self._task: asyncio.Task[None] | None = None
        self._not_before_s = 0.0

    def consider(self, open_segments: Iterable[tuple[Segment, AudioTrack]]) -> None:
        """Begins the draft that is most overdue of those that bring voice, if one may begin now."""
        if self._drafting is not None or self._budget.full:  # before any audio is looked at: when all are busy too
            return
        if self._loop.time() < self._not_before_s:
            return
        for segment, track in sorted(open_segments, key=lambda pair: pair[0].drafted - pair[1].heard):
            if track.heard - segment.drafted < self._interval:
                return
            if _brings_voice(segment, track) and self._budget.take():
                segment.drafted = track.heard
                self._drafting = segment
                self._task = self._tasks.create_task(self._draft(segment, track))
                self._task.add_done_callback(partial(self._over, self._loop.time()))
                return

    def closed(self, segment: Segment) -> None:
        """No partial of the segment is told any more."""
        if self._drafting is segment and self._task is not None:
            self._task.cancel()
            self._drafting = self._task = None

    async def _draft(self, segment: Segment, track: AudioTrack) -> None:
        end = track.heard
        start_ms = segment.window.begin(to_ms(end))
        start = max(segment.audio_start, to_samples(start_ms))
        samples = track.cut(start, end)
        words = 2 * len(samples) > self._window  # a place to cut will be needed soon
        try:
            hypothesis = await self._tools.models.recognizer_replica.submit(
                segment.request(samples, self._options, draft=True, words=words),
                priority=Priority.LOW,
                audio_s=seconds(len(samples)),
            )
        except StreamScribeError:
            return
        if hypothesis.text:  # else what was shown stands
            self._tell(segment, hypothesis, start, end)

    def _over(self, asked_s: float, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._drafting = self._task = None
        elapsed_s = self._loop.time() - asked_s
        self._budget.give_back(None if task.cancelled() else elapsed_s)
        self._not_before_s = self._loop.time() + REST * elapsed_s

    def _tell(self, segment: Segment, hypothesis: Hypothesis, start: int, end: int) -> None:
        words = [
            Word(word.text, to_ms(start + word.start), to_ms(start + word.end), word.confidence)
            for word in hypothesis.words
        ]
        whole = segment.window.read(hypothesis.text, words)
        text = self._tools.text.draft(whole, text_language(self._options, hypothesis))
        self._teller.partial(segment, text, end, hypothesis, self._loop.time())


def _brings_voice(segment: Segment, track: AudioTrack) -> bool:
    """Whether the audio since the last draft is about as loud as the segment was."""
    new = track.cut(segment.drafted, track.heard)
    power = float(np.dot(new, new)) / len(new)
    segment.loudest = max(segment.loudest, power)
    return power > QUIET * segment.loudest
