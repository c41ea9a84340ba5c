"""The bus of one process: the gateway's publish is the worker's call, with a bound in audio seconds between them."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from streamscribe.bus.backlog import Backlog, audio_bytes
from streamscribe.core.errors import Draining
from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure
from streamscribe.core.records import (
    Checkpointed,
    Emitted,
    Failed,
    Finished,
    Record,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.ports import EventHandler, RecordHandler


@dataclass(slots=True)
class _Lane:
    """One session: what was delivered and is not settled, and what waits for room, oldest first.

    What waits is bounded by its publishers, who wait with it.
    """

    backlog: Backlog
    waiting: deque[tuple[Record, asyncio.Future[None]]] = field(default_factory=deque)

    def release_waiting(self) -> None:
        """Frees all publishers; their records are dropped."""
        while self.waiting:
            _wake(self.waiting.popleft()[1])


class MemoryBus:
    """`ports.Bus` within one event loop.

    `publish` gives the record to the worker before it returns and does not suspend while there is room. Without room
    it waits in turn; a publisher that is cancelled while it waits leaves its record in its place, so that a session's
    indices never get a hole. A session's place exists from its `SessionOpened` to its `Finished`, `Failed` or
    `SessionAbandoned`; records of other sessions are dropped. Not thread-safe.
    """

    durability = "process"

    def __init__(self, max_backlog_s: float) -> None:
        self._max_backlog_s = max_backlog_s
        self._lanes: dict[SessionId, _Lane] = {}
        self._to_worker: RecordHandler | None = None
        self._to_gateway: EventHandler | None = None
        self._closed = False

    def room(self, session_id: SessionId, size_bytes: int) -> bool:
        """Whether `publish` of so much audio would return at once."""
        lane = self._lanes.get(session_id)
        return lane is None or (not lane.waiting and self._to_worker is not None and lane.backlog.fits(size_bytes))

    async def publish(self, record: Record) -> None:
        """Delivers the record, after all earlier ones of its session; raises Draining once the bus is closed."""
        if self._closed:
            raise Draining
        lane = self._lane(record)
        if lane is None:
            return
        if isinstance(record, SessionAbandoned):
            self._forget(record.session_id)
            if self._to_worker is not None:
                self._to_worker(record)
        elif self._to_worker is not None and not lane.waiting and lane.backlog.fits(audio_bytes(record)):
            self._deliver(lane, record, self._to_worker)
        else:
            waiter = asyncio.get_running_loop().create_future()
            lane.waiting.append((record, waiter))
            await waiter

    def attach_worker(self, handler: RecordHandler) -> None:
        """Gives `handler` each record from now on, and those that waited for a worker."""
        self._to_worker = handler
        for lane in self._lanes.values():
            self._drain(lane)

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """Frees the place of one record of so many audio bytes and delivers what waited for it."""
        lane = self._lanes.get(session_id)
        if lane is None:
            return
        lane.backlog.settle(size_bytes)
        self._drain(lane)

    def emit(self, event: Emitted) -> None:
        """Gives the event to the gateway before it returns; what goes wrong there is not the worker's."""
        if self._closed:
            return
        if isinstance(event, (Finished, Failed)):
            self._forget(event.session_id)
        if self._to_gateway is None or isinstance(event, Checkpointed):  # nobody could go on after this process
            return
        try:
            self._to_gateway(event)
        except Exception as error:  # noqa: BLE001 - the gateway's edge: its defect may not fail a worker's session
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a gateway failed to take an event", "exception": error}
            )

    def attach_gateway(self, handler: EventHandler) -> None:
        """Gives `handler` each worker event from now on."""
        self._to_gateway = handler

    async def close(self) -> None:
        """Stops delivery; publishers that wait get Draining."""
        self._closed = True
        for lane in self._lanes.values():
            for _, waiter in lane.waiting:
                if not waiter.done():
                    waiter.set_exception(Draining())
        self._lanes.clear()

    def check_integrity(self) -> None:
        """Delivered = settled + unsettled within its bound, and nothing waits that would fit."""
        for session_id, lane in self._lanes.items():
            lane.backlog.check_integrity()
            fits = bool(lane.waiting) and lane.backlog.fits(audio_bytes(lane.waiting[0][0]))
            ensure(self._to_worker is None or not fits, f"{session_id}: nothing waits that has room")

    def _lane(self, record: Record) -> _Lane | None:
        lane = self._lanes.get(record.session_id)
        if lane is None and isinstance(record, SessionOpened):
            backlog = Backlog(self._max_backlog_s, record.options.audio.bytes_per_second)
            lane = self._lanes[record.session_id] = _Lane(backlog)
        return lane

    def _deliver(self, lane: _Lane, record: Record, handler: RecordHandler) -> None:
        lane.backlog.add(audio_bytes(record))
        handler(record)

    def _drain(self, lane: _Lane) -> None:
        handler = self._to_worker
        while handler is not None and lane.waiting and lane.backlog.fits(audio_bytes(lane.waiting[0][0])):
            record, waiter = lane.waiting.popleft()
            self._deliver(lane, record, handler)
            _wake(waiter)

    def _forget(self, session_id: SessionId) -> None:
        lane = self._lanes.pop(session_id, None)
        if lane is not None:
            lane.release_waiting()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
