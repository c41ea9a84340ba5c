"""Finals of whole segments: the full decode of each that has closed, told in order."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from streamscribe.cache.transcripts import Said
from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.options import SessionOptions
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.worker.carry import Carry, Turn
from streamscribe.worker.finish import NO_MARKS, NOBODY_SPOKE, Finisher, Marks
from streamscribe.worker.line import Line, Place
from streamscribe.worker.segment import Final, Segment, StreamTools, final_priority, seconds
from streamscribe.worker.teller import Teller

GATHERED_STEPS = 2
"""Of a file, so many full steps of segments are asked for together, so that each finds company of its own length."""
PENDING_STEPS = 3
"""Of a file, so many may wait for their finals: those gathered, and one that runs meanwhile."""


def line_of_finals(options: SessionOptions, tools: StreamTools) -> Line:
    """Where the last finals of a session wait: a few of a live one, of a file what fills the model's steps."""
    most, policy = tools.settings.max_pending_finals, tools.models.recognition.current.stage.policy
    if options.live:
        return Line(most)
    return Line(max(most, PENDING_STEPS * policy.max_batch_size), PENDING_STEPS * policy.max_batch_s)


@dataclass(frozen=True, slots=True)
class _Closed:
    """A segment that ended at sample `end`, its final's place, and what is asked about it: nothing if it is empty."""

    segment: Segment
    end: int
    place: Place
    request: SegmentRequest | None
    turn: Turn | None

    @property
    def reads_context(self) -> bool:
        """Whether its model reads what was said before, and there may be something."""
        recognition = self.segment.models.recognition
        return self.turn is not None and self.request is not None and recognition.reads_context(self.request)


class Finals:
    """The last pass of one session: segments are recognised side by side and told in the order they closed.

    Those of a live session are asked for at once. Those of a file gather until they fill steps, or until all the audio
    that has come was heard: on a quick model they would run one by one. None waits for company in a full line. Where
    the model reads what was said before, each waits for the text of the one before instead; where only punctuation
    does, for its marks.

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
        self._gathered: list[_Closed] = []
        self._carry = Carry(tools.context_ttl_s)
        self._loop = asyncio.get_running_loop()

    @property
    def steps(self) -> frozenset[object]:
        """The finals that are not told: those that are recognised elsewhere are punctuated here."""
        return frozenset(self._line)

    def opened(self, segment: Segment) -> None:
        """Nothing is to be done before a segment's end."""

    async def heard(self) -> None:
        """Nothing is to be done before a segment's end."""

    async def closed(self, segment: Segment, closed: SegmentClosed) -> None:
        """Has the segment recognised, a file's with others."""
        await self._line.room()
        request = None
        if not closed.empty:
            request = segment.request(closed, self._options, words=self._finisher.needs_words)
        place = self._line.join(0.0 if request is None else seconds(len(request.samples)))
        one = _Closed(segment, closed.end, place, request, self._carry.turn(segment))
        self._gathered.append(one)
        if self._options.live or one.reads_context or self._line.full or self._fills_steps():
            self.caught_up()

    def caught_up(self) -> None:
        """Has recognised what has gathered."""
        gathered, self._gathered = self._gathered, []
        for one in gathered:
            self._tasks.create_task(self._settle(one))

    def _fills_steps(self) -> bool:
        """Whether what has gathered is enough, were all as long as the longest."""
        policy, count = self._tools.models.recognition.current.stage.policy, len(self._gathered)
        padded_s = count * max(one.place.audio_s for one in self._gathered)
        return count >= GATHERED_STEPS * policy.max_batch_size or padded_s >= GATHERED_STEPS * policy.max_batch_s

    async def _settle(self, closed: _Closed) -> None:
        segment, end, request, turn = closed.segment, closed.end, closed.request, closed.turn
        try:
            if request is not None and turn is not None and closed.reads_context:
                request = replace(request, context=(await turn.earlier()).text)
            final = NOBODY_SPOKE if request is None else await self._text(closed, request)
            if turn is not None:
                await turn.speak(final.heard.text, final.unfinished, end)
        except Exception:
            self._tools.observer.segment_failed(self._teller.tenant_id)
            raise
        finally:
            if turn is not None:
                turn.fall_silent()
        if segment.first_final is not None:
            await segment.first_final
        segment.models.give_back()
        self._line.ready(closed.place, partial(self._teller.final, segment, self._options.mode.last_pass, final, end))

    async def _text(self, closed: _Closed, request: SegmentRequest) -> Final:
        """What this pass hears; of a live session, where that comes too late, what the first one heard."""
        segment, lag, tenant = closed.segment, self._tools.lag, closed.segment.share.tenant
        if segment.first_final is None or not self._options.live or lag.bound_s == inf:
            return await self._recognise(closed, request)
        ticket = lag.ask(tenant, self._loop.time())
        if ticket is not None:
            late = False
            try:
                async with asyncio.timeout(lag.bound_s):
                    return await self._recognise(closed, replace(request, within_s=lag.bound_s))
            except TimeoutError:
                late = True
            finally:
                lag.give_back(tenant, ticket, late=late)
        await segment.first_final
        if segment.first is None:  # it failed, and only this pass can tell the text
            return await self._recognise(closed, request)
        self._tools.observer.segment_degraded(self._teller.tenant_id)
        return replace(segment.first, degraded=True)

    async def _recognise(self, closed: _Closed, request: SegmentRequest) -> Final:
        """What the models say, or said before; marks that depend on what the session said are found anew each time."""
        segment, recall = closed.segment, self._tools.recall
        anew = closed.turn is not None and self._finisher.punctuates(segment)
        found = await recall.find(segment.models, request, punctuation=self._options.punctuation and not anew)
        if found.said is not None and not anew:
            return await self._finisher.finish(segment, closed.end, found.said.heard, Marks(found.said.marks))
        heard = await self._hear(segment, request) if found.said is None else found.said.heard
        marks = await self._finisher.marks(segment, heard, closed.turn)
        if found.key is not None and found.said is None and marks is not None:
            recall.keep(request.tenant_id, found.key, Said(heard, () if anew else marks.found))
        return await self._finisher.finish(segment, closed.end, heard, marks or NO_MARKS)

    async def _hear(self, segment: Segment, request: SegmentRequest) -> Hypothesis:
        began_s = self._loop.time()
        audio_s = seconds(len(request.samples))
        heard = await segment.models.recognition.stage.submit(
            request,
            priority=final_priority(self._options),
            audio_s=audio_s,
            share=segment.share,
            patient=True,
        )
        self._tools.observer.segment_recognised(audio_s, self._loop.time() - began_s)
        return heard
