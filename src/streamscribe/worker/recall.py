"""What models said of equal segments before: looked up and kept in a thread, never on the event loop."""

import asyncio
from concurrent.futures import Executor

from streamscribe.cache.transcripts import AnswerKey, Found, Said, Sources, Transcripts
from streamscribe.core.ids import TenantId
from streamscribe.models.pool import Lease
from streamscribe.models.ports import SegmentRequest
from streamscribe.observe.logs import get_logger
from streamscribe.worker.observer import WorkerObserver

_log = get_logger(__name__)

PATIENCE_S = 1.0
"""A look-up that takes longer is a miss, and its answer is not kept: a slow disk or Redis delays no final for long."""

MAX_KEEPING = 64
"""Answers that wait to be kept, of all sessions; further ones are not kept."""


class Recall:
    """The transcript cache as finals use it; without one nothing is found or kept.

    `executor` must run one thing after the other: what was given to keep before is found then.
    """

    def __init__(self, transcripts: Transcripts | None, executor: Executor, observer: WorkerObserver) -> None:
        self._transcripts = transcripts
        self._executor = executor
        self._observer = observer
        self._keeping: set[asyncio.Future[bool]] = set()

    async def find(self, models: Lease, request: SegmentRequest, *, punctuation: bool) -> Found:
        """What these models said before, and the key to keep an answer under; neither for models that sample."""
        transcripts = self._transcripts
        if transcripts is None or not request.store or not models.recognition.deterministic(request):
            return Found()
        marks = models.punctuation.source if punctuation and models.punctuation else None
        sources = Sources(models.recognition.source(request), marks)
        look = asyncio.get_running_loop().run_in_executor(self._executor, transcripts.find, request, sources)
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await look
        except TimeoutError:
            found = Found()
        self._observer.transcript_sought(found.said is not None)
        return found

    def keep(self, tenant: TenantId | None, key: AnswerKey, said: Said) -> None:
        """Keeps an answer in the background; returns at once."""
        if self._transcripts is None or len(self._keeping) >= MAX_KEEPING:
            return
        keeping = asyncio.get_running_loop().run_in_executor(self._executor, self._transcripts.keep, tenant, key, said)
        self._keeping.add(keeping)
        keeping.add_done_callback(self._kept)

    def _kept(self, keeping: asyncio.Future[bool]) -> None:
        self._keeping.discard(keeping)
        if not keeping.cancelled() and (defect := keeping.exception()) is not None:
            _log.error("a transcript was not kept", exc_info=defect)
