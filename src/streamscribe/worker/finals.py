"""Finals of whole segments: the full decode of each that has closed, told in order."""

import asyncio
from functools import partial

from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.options import SessionOptions
from streamscribe.models.ports import SegmentRequest
from streamscribe.worker.finish import NOBODY_SPOKE, Finisher
from streamscribe.worker.line import Line, Place
from streamscribe.worker.patience import submit_patiently
from streamscribe.worker.segment import Final, Segment, StreamTools, final_priority, seconds
from streamscribe.worker.teller import Teller


class Finals:
    """The last pass of one session: segments are recognised side by side and told in the order they closed.

    A segment's final never comes before that of its first pass. As many wait as the line has places. A decode that
    fails raises in the session's task group: a segment is never lost in silence.
    """

    def __init__(
        self,
        options: SessionOptions,
        tools: StreamTools,
        tasks: asyncio.TaskGroup,
        teller: Teller,
        finisher: Finisher,
        line: Line,
    ) -> None:
        self._options = options
        self._tools = tools
        self._tasks = tasks
        self._teller = teller
        self._finisher = finisher
        self._line = line
        self._loop = asyncio.get_running_loop()

    def opened(self, segment: Segment) -> None:
        """Nothing is to be done before a segment's end."""

    async def heard(self) -> None:
        """Nothing is to be done before a segment's end."""

    async def closed(self, segment: Segment, closed: SegmentClosed) -> None:
        """Has the segment recognised."""
        await self._line.room()
        place = self._line.join()
        request = None
        if not closed.empty:
            request = segment.request(closed, self._options, words=self._finisher.needs_words)
        self._tasks.create_task(self._settle(segment, closed.end, request, place))

    async def _settle(self, segment: Segment, end: int, request: SegmentRequest | None, place: Place) -> None:
        try:
            final = NOBODY_SPOKE if request is None else await self._recognise(segment, end, request)
        except Exception:
            self._tools.observer.segment_failed(self._teller.tenant_id)
            raise
        if segment.first_final is not None:
            await segment.first_final
        self._line.ready(place, partial(self._teller.final, segment, self._options.mode.last_pass, final, end))

    async def _recognise(self, segment: Segment, end: int, request: SegmentRequest) -> Final:
        began_s = self._loop.time()
        audio_s = seconds(len(request.samples))
        heard = await submit_patiently(
            self._tools.models.recognizer_replica,
            request,
            priority=final_priority(self._options),
            audio_s=audio_s,
        )
        self._tools.observer.segment_recognised(audio_s, self._loop.time() - began_s)
        return await self._finisher.finish(segment, end, heard)
