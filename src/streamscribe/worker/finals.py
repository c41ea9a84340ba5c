"""Finals: the full decode of each segment that has closed, told in order."""

import asyncio
from functools import partial

from streamscribe.core.audio import to_ms
from streamscribe.core.batching import Priority
from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.options import SessionOptions
from streamscribe.core.results import Word
from streamscribe.models.ports import Hypothesis, Samples
from streamscribe.text.pipeline import FinishRequest
from streamscribe.worker.line import Line, Place, Tell
from streamscribe.worker.patience import submit_patiently
from streamscribe.worker.segment import Segment, StreamTools, seconds, text_language
from streamscribe.worker.teller import Teller


class Finals:
    """The finals of one session, recognised side by side and told in the order their segments closed.

    At most `max_pending_finals` wait (flushes count too); then `room` waits, and the session reads no more audio.
    A decode that fails raises in the session's task group: a segment is never lost in silence.
    """

    def __init__(self, options: SessionOptions, tools: StreamTools, tasks: asyncio.TaskGroup, teller: Teller) -> None:
        self._options = options
        self._tools = tools
        self._tasks = tasks
        self._teller = teller
        self._loop = asyncio.get_running_loop()
        self._line = Line(tools.settings.max_pending_finals)

    async def room(self) -> None:
        """Returns when one more final may be pending."""
        await self._line.room()

    async def then(self, tell: Tell) -> None:
        """Calls `tell` after all finals before it."""
        await self._line.room()
        self._line.ready(self._line.join(), tell)

    async def add(self, segment: Segment, closed: SegmentClosed, samples: Samples, voice_ended_s: float) -> None:
        """Recognises a closed segment; `voice_ended_s` is when its voice ended by the event loop's clock."""
        await self._line.room()
        place = self._line.join()
        if closed.end > closed.start:
            self._tasks.create_task(self._recognise(segment, closed, samples, voice_ended_s, place))
        else:  # what a flush left of a voice that had ended before it
            self._line.ready(place, partial(self._tell, segment, closed, "", (), Hypothesis(""), voice_ended_s))

    async def _recognise(
        self, segment: Segment, closed: SegmentClosed, samples: Samples, voice_ended_s: float, place: Place
    ) -> None:
        began_s = self._loop.time()
        try:
            hypothesis = await submit_patiently(
                self._tools.models.recognizer_replica,
                segment.request(samples, self._options, draft=False, words=self._options.words),
                priority=Priority.URGENT if self._options.live else Priority.NORMAL,
                audio_s=seconds(len(samples)),
            )
            self._tools.observer.segment_recognised(seconds(len(samples)), self._loop.time() - began_s)
            text, words = await self._finish(hypothesis, closed.audio_start)
        except Exception:
            self._tools.observer.segment_failed(self._teller.tenant_id)
            raise
        self._line.ready(place, partial(self._tell, segment, closed, text, words, hypothesis, voice_ended_s))

    async def _finish(self, hypothesis: Hypothesis, audio_start: int) -> tuple[str, tuple[Word, ...]]:
        """The text for people, and its words on the session's clock."""
        if not hypothesis.text:
            return "", ()
        words = tuple(
            Word(word.text, to_ms(audio_start + word.start), to_ms(audio_start + word.end), word.confidence)
            for word in hypothesis.words
        )
        request = FinishRequest(
            hypothesis.text,
            words,
            language=text_language(self._options, hypothesis),
            itn=self._options.itn,
            punctuation=self._options.punctuation,
        )
        finished = await self._loop.run_in_executor(self._tools.executor, self._tools.text.finish, request)
        return finished.text, finished.words

    def _tell(
        self,
        segment: Segment,
        closed: SegmentClosed,
        text: str,
        words: tuple[Word, ...],
        hypothesis: Hypothesis,
        voice_ended_s: float,
    ) -> None:
        self._teller.final(segment, text, closed.end, words, hypothesis, self._loop.time() - voice_ended_s)

    def check_integrity(self) -> None:
        """The line's equation."""
        self._line.check_integrity()
