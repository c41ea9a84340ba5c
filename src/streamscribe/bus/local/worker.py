"""A worker's end of the local bus."""

import asyncio
from collections.abc import Callable

from streamscribe.bus.local.frames import Work, settle_payload, work_payload
from streamscribe.bus.local.link import Kind, Link
from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Emitted, Failed, Finished, SessionAbandoned
from streamscribe.ports import RecordHandler
from streamscribe.wire.bus_records import decode_record, encode_event

LOOK_EVERY_S = 0.25
"""At sessions for which a model was at work; the gateway learns so late that none is any more."""


class LocalWorkerBus:
    """`ports.WorkerBus` over a link. Records wait in the socket until a handler is attached.

    Unsent events are bounded by what the session's backlog can make of them, and by the link. When the link is closed
    there is nobody to work for: its `closed` says so.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._closed = False
        self.steps: Callable[[SessionId], frozenset[object]] = lambda session_id: frozenset()
        """The steps of models that may be under way for what is settled of a session, each the same until it is over.

        The session's id is among them where nobody knows. The gateway is told when there are some, others, and none.
        """
        self._steps: dict[SessionId, frozenset[object]] = {}  # of those at the last telling, what is not over
        self._look_later: asyncio.TimerHandle | None = None
        for kind in (Kind.EVENT, Kind.SETTLE, Kind.WORK):
            link.on(kind, _refuse)

    def attach_worker(self, handler: RecordHandler) -> None:
        """Gives `handler` each record; a defect that it raises ends the link."""

        def take(payload: memoryview) -> None:
            if not self._closed:
                record = decode_record(payload)
                if isinstance(record, SessionAbandoned):
                    self._steps.pop(record.session_id, None)
                handler(record)

        self._link.on(Kind.RECORD, take)

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """Tells the gateway that one record of so many audio bytes is processed."""
        if not self._closed:
            self._tell_work(session_id)
            self._link.send(Kind.SETTLE, settle_payload(session_id, size_bytes))

    def emit(self, event: Emitted) -> None:
        """Sends the event."""
        if not self._closed:
            if isinstance(event, (Finished, Failed)):
                self._steps.pop(event.session_id, None)
            self._link.send(Kind.EVENT, encode_event(event))

    async def close(self) -> None:
        """Takes and says nothing more; the link stays its opener's."""
        self._closed = True
        if self._look_later is not None:
            self._look_later.cancel()

    def _tell_work(self, session_id: SessionId) -> None:
        now, told = self.steps(session_id), self._steps.pop(session_id, None)
        rest = now & (told | {session_id}) if told else None
        if now:
            self._steps[session_id] = rest or now
        if rest or (not now and not told):
            return
        work = Work.NONE if not now else Work.OTHER if told else Work.SOME
        self._link.send(Kind.WORK, work_payload(session_id, work))
        self._look_again()

    def _look_again(self) -> None:
        if self._look_later is None and self._steps and not self._link.closed.done():
            self._look_later = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._look_later = None
        for session_id in list(self._steps):
            self._tell_work(session_id)
        self._look_again()


def _refuse(payload: memoryview) -> None:
    raise BadRequest("a gateway sends records only", field="frame")
