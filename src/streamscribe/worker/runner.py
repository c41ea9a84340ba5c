"""The worker: one task per session, each on its own, all owned by one group."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from traceback import clear_frames
from typing import NoReturn

from streamscribe.cache.transcripts import Transcripts
from streamscribe.core.degrade import SecondPassLag
from streamscribe.core.errors import InternalError, StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.core.integrity import ensure
from streamscribe.core.latency import AdaptiveChunk
from streamscribe.core.records import (
    AudioChunk,
    Emitted,
    Failed,
    Finished,
    Record,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.models.pool import Models
from streamscribe.observe.logs import get_logger
from streamscribe.ports import WorkerBus
from streamscribe.settings import WorkerSettings
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.budget import DraftBudget
from streamscribe.worker.observer import WorkerObserver
from streamscribe.worker.recall import Recall
from streamscribe.worker.segment import StreamTools
from streamscribe.worker.silence import SilentFrames
from streamscribe.worker.stream import Stream

_log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Owned:
    """A session of this worker. What its inbox holds is bounded by the bus: it is not settled yet."""

    opened: SessionOpened
    inbox: asyncio.Queue[tuple[Record, float]] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    stream: Stream | None = None


class Worker:
    """Turns the records of all sessions of a bus into events.

    A session that fails gets one `Failed` with a typed error and is forgotten; no other notices (law 8). An abandoned
    one is cancelled with all it waits for, and says nothing more.
    """

    def __init__(
        self,
        bus: WorkerBus,
        models: Models,
        text: TextPipeline,
        settings: WorkerSettings,
        observer: WorkerObserver,
        transcripts: Transcripts | None = None,
        *,
        context_ttl_s: float = 0.0,
    ) -> None:
        """`transcripts` keeps what models say of last finals; None keeps nothing.

        `context_ttl_s` is how long what a session said before is given to its recogniser.
        """
        self._bus = bus
        self._models = models
        self._text = text
        self._settings = settings
        self._observer = observer
        self._transcripts = transcripts
        self._context_ttl_s = context_ttl_s
        self._budget = DraftBudget(settings.partial_interval_ms / 1000)
        engine = models.first_pass
        self._chunk = None if engine is None else AdaptiveChunk(engine.current.recognizer.chunk_choices_ms)
        self._lag = SecondPassLag(settings.degrade_after_ms / 1000 if settings.degrade == "first_pass" else inf)
        self._sessions: dict[SessionId, _Owned] = {}

    @property
    def sessions(self) -> int:
        """How many sessions it has now."""
        return len(self._sessions)

    def steps(self, session_id: SessionId) -> frozenset[object]:
        """What models of this process may be in a step for, or will be, of what is settled of the session.

        Each thing is the same until it is over. Of a session that is over here nobody waits for its steps: its id.
        """
        owned = self._sessions.get(session_id)
        return frozenset((session_id,)) if owned is None or owned.stream is None else owned.stream.steps

    async def run(self) -> NoReturn:
        """Works until cancelled."""
        with (
            ThreadPoolExecutor(1, thread_name_prefix="text") as executor,
            ThreadPoolExecutor(1, thread_name_prefix="transcripts") as keeper,
        ):
            tools = StreamTools(
                self._models,
                self._text,
                executor,
                self._settings,
                self._observer,
                self._budget,
                SilentFrames(self._models),
                self._chunk,
                Recall(self._transcripts, keeper, self._observer),
                self._context_ttl_s,
                self._lag,
            )
            async with asyncio.TaskGroup() as tasks:
                self._bus.attach_worker(lambda record: self._accept(record, tasks, tools))
                await asyncio.get_running_loop().create_future()
        raise AssertionError("a future that nobody sets ends by cancellation only")

    def check_integrity(self) -> None:
        """The equations of all ledgers of all sessions."""
        self._budget.check_integrity()
        self._lag.check_integrity()
        if self._chunk is not None:
            self._chunk.check_integrity()
        for owned in self._sessions.values():
            if owned.stream is not None:
                owned.stream.check_integrity()
        held = sum(owned.stream.leases for owned in self._sessions.values() if owned.stream is not None)
        for slot in self._models.slots:
            slot.check_integrity()
            ensure(slot.leases == held, "each lease of a model is held by a segment")

    def _compare_models(self, opened: SessionOpened) -> None:
        """Says so where the session was heard with other versions: its text may go on otherwise than it began."""
        had, have = opened.checkpoint.models if opened.checkpoint is not None else (), self._models.versions
        if had and have and had != have:
            log = _log.bind(session_id=opened.session_id, trace_id=opened.trace_id)
            log.warning("a session goes on with other models", had=had, have=have)
            self._observer.taken_over_with_other_models()

    def _accept(self, record: Record, tasks: asyncio.TaskGroup, tools: StreamTools) -> None:
        owned = self._sessions.get(record.session_id)
        if owned is not None and isinstance(record, SessionAbandoned):
            self._forget(owned)
            if owned.task is not None:
                owned.task.cancel()
                owned.task = None
        elif owned is not None:
            owned.inbox.put_nowait((record, asyncio.get_running_loop().time()))
        elif isinstance(record, SessionOpened):
            owned = self._sessions[record.session_id] = _Owned(record)
            owned.task = tasks.create_task(self._own(owned, tools), name=f"session-{record.session_id}")
            self._observer.stream_opened(record.tenant_id)
            self._compare_models(record)
            self._count()

    async def _own(self, owned: _Owned, tools: StreamTools) -> None:
        try:
            self._tell(owned, await self._work(owned, tools))
        except asyncio.CancelledError as cancelled:
            clear_frames(cancelled.__traceback__)
            raise
        except Exception as error:  # noqa: BLE001 - the session's edge: whatever it was, it is this session's alone
            self._tell(owned, Failed(owned.opened.session_id, _typed(owned.opened, error)))
            clear_frames(error.__traceback__)
        finally:  # with the frames, what else would hold the session's audio in cycles until the next collection
            if owned.stream is not None:
                owned.stream.close()
            owned.stream = owned.task = None
            self._forget(owned)

    async def _work(self, owned: _Owned, tools: StreamTools) -> Finished:
        session_id = owned.opened.session_id
        async with asyncio.TaskGroup() as tasks:
            stream = owned.stream = Stream(owned.opened, tools, tasks, lambda event: self._tell(owned, event))
            self._bus.settle(session_id, 0)
            while not stream.ended:
                if owned.inbox.empty():
                    stream.caught_up()
                record, arrived = await owned.inbox.get()
                await stream.handle(record, arrived)
                self._bus.settle(session_id, len(record.data) if isinstance(record, AudioChunk) else 0)
        return Finished(session_id, stream.audio_ms)

    def _tell(self, owned: _Owned, event: Emitted) -> None:
        """Sends an event of a session that is still ours."""
        if self._sessions.get(event.session_id) is owned:
            self._bus.emit(event)

    def _forget(self, owned: _Owned) -> None:
        if self._sessions.get(owned.opened.session_id) is owned:
            del self._sessions[owned.opened.session_id]
            self._observer.stream_closed(owned.opened.tenant_id)
            self._count()

    def _count(self) -> None:
        """A model step waits for others only while there are others."""
        self._models.population = len(self._sessions)


def _typed(opened: SessionOpened, error: BaseException) -> StreamScribeError:
    """The error to tell; a defect of ours is logged here and told without its details."""
    while isinstance(error, BaseExceptionGroup):
        error = next((e for e in error.exceptions if isinstance(e, StreamScribeError)), error.exceptions[0])
    log = _log.bind(session_id=opened.session_id, trace_id=opened.trace_id)
    if isinstance(error, StreamScribeError):
        log.warning("session_failed", code=error.code)
        return error.with_traceback(None)  # whose frames hold audio
    log.error("session_failed", code=InternalError.code, exc_info=error)
    return InternalError()
