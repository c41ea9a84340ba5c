"""The ways in which a session's segments become text, and which of them a session takes."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.options import Mode
from streamscribe.core.records import SessionOpened
from streamscribe.worker.finals import Finals
from streamscribe.worker.finish import Finisher
from streamscribe.worker.first_pass import FirstPass
from streamscribe.worker.line import Line
from streamscribe.worker.partials import Drafts
from streamscribe.worker.segment import Segment, StreamTools
from streamscribe.worker.teller import Teller


class Pass(Protocol):
    """Hears of each segment of a session what it needs to tell its text; several passes hear the same.

    What waits for a model waits in the session's task group, bounded: beyond the bound the methods do not return, and
    the session reads no more audio (law 7).
    """

    @property
    def steps(self) -> frozenset[object]:
        """What models of this process may be in a step for, or will be, of what was heard."""
        ...

    def opened(self, segment: Segment) -> None:
        """A segment began."""
        ...

    async def heard(self) -> None:
        """The next block of each channel was heard; the tracks of open segments have it."""
        ...

    async def closed(self, segment: Segment, closed: SegmentClosed) -> None:
        """A segment ended; its track has its audio until this returns."""
        ...

    def caught_up(self) -> None:
        """All that has come was heard, and nobody knows when more comes: what waits for company goes alone."""
        ...


def passes_of(
    opened: SessionOpened, tools: StreamTools, tasks: asyncio.TaskGroup, teller: Teller, last: Line
) -> Sequence[Pass]:
    """The passes of a session; the finals of its last pass take their places in `last`.

    Where a model recognises streams, its text is the first pass; else what is shown early are drafts of the finals.
    """
    options = opened.options
    finisher = Finisher(opened, tools)
    finals = Finals(options, tools, tasks, teller, finisher, last)
    if options.mode is Mode.OFFLINE:
        return (finals,)
    if tools.models.first_pass is None:
        return (Drafts(options, tools, tasks, teller, finisher), finals)
    if options.mode is Mode.ONLINE:
        return (FirstPass(options, tools, tasks, teller, finisher, last),)
    first = Line(tools.settings.max_pending_finals)
    return (FirstPass(options, tools, tasks, teller, finisher, first), finals)
