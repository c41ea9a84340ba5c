"""A worker's end of the local bus."""

from streamscribe.bus.local.frames import settle_payload
from streamscribe.bus.local.link import Kind, Link
from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Emitted
from streamscribe.ports import RecordHandler
from streamscribe.wire.bus_records import decode_record, encode_event


class LocalWorkerBus:
    """`ports.WorkerBus` over a link. Records wait in the socket until a handler is attached.

    Unsent events are bounded by what the session's backlog can make of them, and by the link. When the link is closed
    there is nobody to work for: its `closed` says so.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._closed = False
        link.on(Kind.EVENT, _refuse)
        link.on(Kind.SETTLE, _refuse)

    def attach_worker(self, handler: RecordHandler) -> None:
        """Gives `handler` each record; a defect that it raises ends the link."""

        def take(payload: memoryview) -> None:
            if not self._closed:
                handler(decode_record(payload))

        self._link.on(Kind.RECORD, take)

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """Tells the gateway that one record of so many audio bytes is processed."""
        if not self._closed:
            self._link.send(Kind.SETTLE, settle_payload(session_id, size_bytes))

    def emit(self, event: Emitted) -> None:
        """Sends the event."""
        if not self._closed:
            self._link.send(Kind.EVENT, encode_event(event))

    async def close(self) -> None:
        """Takes and says nothing more; the link stays its opener's."""
        self._closed = True


def _refuse(payload: memoryview) -> None:
    raise BadRequest("a gateway sends records only", field="frame")
