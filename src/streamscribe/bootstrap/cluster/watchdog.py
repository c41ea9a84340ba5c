"""When a worker of a cluster should have no sessions any more: it hangs, or has outgrown its memory."""

import asyncio

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Emitted, Failed
from streamscribe.core.restarts import Patience
from streamscribe.models.memory import resident_bytes
from streamscribe.models.pool import Models
from streamscribe.models.replica import Replica
from streamscribe.ports import RecordHandler, WorkerBus
from streamscribe.settings import WorkerSettings

CHECK_EVERY_S = 0.25


class Watchdog:
    """Looks at a worker's models and memory: its group would not notice, for heartbeats go on beside them.

    It is the worker's way to its bus, too: what a hanging step has failed is not told, for another worker goes on.
    """

    def __init__(self, bus: WorkerBus, settings: WorkerSettings) -> None:
        """Call `watch` before the worker gets sessions."""
        self._bus = bus
        self._settings = settings
        self._models: Models
        self._kept_back = asyncio.Event()
        self.hung = False
        """Set where a step hangs, or the models served nobody for `worker.hang_timeout_s`."""
        self.error: ModelUnavailable | None = None
        """Why the worker has to end, once it has to."""

    def watch(self, models: Models) -> None:
        """These are the worker's."""
        self._models = models

    def attach_worker(self, handler: RecordHandler) -> None:
        """As of the bus."""
        self._bus.attach_worker(handler)

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        """As of the bus; what failed with a step that hangs is not processed."""
        if not self._kept_back.is_set():
            self._bus.settle(session_id, size_bytes)

    def emit(self, event: Emitted) -> None:
        """As of the bus, but for what a step that hangs has failed."""
        if isinstance(event, Failed) and isinstance(event.error, ModelUnavailable) and self._hangs():
            self._kept_back.set()
        if not self._kept_back.is_set():
            self._bus.emit(event)

    async def close(self) -> None:
        """As of the bus."""
        await self._bus.close()

    async def run(self) -> None:
        """Returns when the worker has to end."""
        loop, settings = asyncio.get_running_loop(), self._settings
        patience = Patience(CHECK_EVERY_S, loop.time())
        while self.error is None:
            try:
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._kept_back.wait()
            except TimeoutError:
                silent_s = patience.look(alive=self._models.outage() is None, now=loop.time())
                self.hung = silent_s > settings.hang_timeout_s
            else:
                self.hung = True
            if self.hung:
                self.error = ModelUnavailable("the models serve nobody: this worker has left its group")
            elif settings.max_memory_bytes and (had := resident_bytes()) > settings.max_memory_bytes:
                self.error = ModelUnavailable(
                    f"the worker had {had} bytes, and worker.max_memory_bytes is {settings.max_memory_bytes}: it has "
                    "left its group; where none lives long, set more, or 0 for no bound"
                )

    def _hangs(self) -> bool:
        return any(isinstance(part, Replica) and part.stalled for part in self._models.replicas)
