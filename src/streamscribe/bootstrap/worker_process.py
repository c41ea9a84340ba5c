"""A worker process: `python -m streamscribe.bootstrap.worker_process FD PARENT`, started by a server over a socket.

It lives as long as the socket, and no longer than the server: when that has died, nobody wants what it works on.
"""

import asyncio
import signal
import socket
import sys
from collections import deque
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import msgspec
import uvloop

from streamscribe.bootstrap.desk import LevelsDesk
from streamscribe.bootstrap.tie import tie_to
from streamscribe.bootstrap.worker_side import WorkerSide, worker_side
from streamscribe.bus.local.link import Kind, Link
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.errors import InternalError, StreamScribeError
from streamscribe.models.memory import resident_bytes
from streamscribe.models.pool import Models
from streamscribe.models.replica import StepReport
from streamscribe.observe.logs import configure, get_logger
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import ModelSettings, Settings
from streamscribe.wire import worker_control as control

STATUS_EVERY_S = 0.25
MAX_REPORTS = 4096
"""Of steps that were not told yet: those of a quarter of a second are some hundreds at most."""

_log = get_logger(__name__)


class Outbox:
    """Reports of steps and lags, from any thread, until the next status takes them; the oldest give way."""

    def __init__(self) -> None:
        self._steps: deque[control.Step] = deque(maxlen=MAX_REPORTS)
        self._lags_s: deque[float] = deque(maxlen=MAX_REPORTS)

    def step_done(self, report: StepReport) -> None:
        """A model ran a batch."""
        self._steps.append(
            control.Step(
                report.name,
                report.batch_size,
                report.batch_limit,
                report.step_s,
                report.audio_s,
                report.live,
                report.live_asked,
                report.live_asked_s,
                report.lag_s,
            )
        )

    def loop_lagged(self, seconds: float) -> None:
        """The event loop ran a timer so late."""
        self._lags_s.append(seconds)

    def take(self) -> tuple[tuple[control.Step, ...], tuple[float, ...]]:
        """All that came since the last time."""
        return _emptied(self._steps), _emptied(self._lags_s)


class Talk:
    """What a worker tells its server, and answers."""

    def __init__(self, link: Link, metrics: Metrics, outbox: Outbox) -> None:
        self._link = link
        self._metrics = metrics
        self._outbox = outbox
        self._side: WorkerSide | None = None
        self._loaded = asyncio.Event()
        self._desk: LevelsDesk | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.begun: asyncio.Future[control.Begin] = asyncio.get_running_loop().create_future()
        self.stopped = asyncio.Event()
        link.on(Kind.CONTROL, self._hear)

    def working(self, side: WorkerSide) -> None:
        """The models are loaded."""
        self._side, self._desk = side, LevelsDesk(side.caches.levels)
        self._loaded.set()

    async def tell_status(self) -> None:
        """Until cancelled."""
        while True:
            steps, lags_s = self._outbox.take()
            side = self._side
            status = control.Status(
                waiting_for=("models",) if side is None else tuple(side.models.not_ready()),
                rss_bytes=resident_bytes(),
                outage=side is not None and side.models.outage() is not None,
                warmup_s={} if side is None else side.models.warmup_s,
                steps=steps,
                lags_s=lags_s,
            )
            self.tell(status)
            await asyncio.sleep(STATUS_EVERY_S)

    def leave(self) -> None:
        """Asks the server to take the sessions elsewhere, and then to tell this worker to stop."""
        self.tell(control.Leaving())

    def tell(self, message: control.ToGateway) -> None:
        """Sends it."""
        self._link.send(Kind.CONTROL, control.encode(message))

    def _hear(self, payload: memoryview) -> None:
        match control.for_worker(payload):
            case control.Begin() as begin:
                if not self.begun.done():
                    self.begun.set_result(begin)
            case control.Stop():
                self.stopped.set()
            case control.Ask() as ask:
                task = asyncio.get_running_loop().create_task(self._answer(ask))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, ask: control.Ask) -> None:
        try:
            value = msgspec.Raw(control.encode(await self._value(ask)))
        except StreamScribeError as error:
            self.tell(control.Answer(ask.id, problem=control.Problem.of(error)))
        except Exception as error:  # noqa: BLE001 - the process' edge: a defect is this question's alone
            _log.error("a question was not answered", exc_info=error)
            self.tell(control.Answer(ask.id, problem=control.Problem.of(InternalError())))
        else:
            self.tell(control.Answer(ask.id, value))

    async def _value(self, ask: control.Ask) -> Any:
        if ask.what == "metrics":
            text, _ = await asyncio.to_thread(self._metrics.render)
            return text.decode()
        if ask.what == "reload":
            await self._loaded.wait()  # what it loads just now may be of former files
        if self._side is None or self._desk is None:
            return None
        if ask.what == "reload":
            return await self._side.reloading.to(ModelSettings.model_validate(ask.settings))
        return await self._desk.answer(ask.what, ask.tenant)


async def work(sock: socket.socket) -> None:
    """Works until the socket is closed, or it is told to stop; SIGTERM asks the server to tell it so."""
    link = await Link.open(sock)
    metrics, outbox = Metrics(), Outbox()
    talk = Talk(link, metrics, outbox)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, talk.leave)
    done, _ = await asyncio.wait((talk.begun, link.closed), return_when=asyncio.FIRST_COMPLETED)
    if talk.begun not in done:
        return
    settings = Settings(**talk.begun.result().settings)
    configure(settings.observe)
    async with AsyncExitStack() as stack:
        telling = asyncio.create_task(talk.tell_status())
        stack.callback(telling.cancel)
        bus = LocalWorkerBus(link)
        try:
            side = await stack.enter_async_context(
                worker_side(settings, bus, metrics, outbox, watch=partial(_watch, metrics))
            )
            bus.steps = side.worker.steps
            talk.working(side)
        except StreamScribeError as error:
            talk.tell(control.Unfit(control.Problem.of(error)))
            return
        stopping = asyncio.create_task(talk.stopped.wait())
        stack.callback(stopping.cancel)
        await asyncio.wait((stopping, link.closed), return_when=asyncio.FIRST_COMPLETED)
        await bus.close()
    link.close()


def _watch(metrics: Metrics, models: Models) -> None:
    for replica in models.replicas:
        metrics.inflight_watched(replica.name, partial(models.inflight, replica.name))


def _emptied(items: "deque[Any]") -> tuple[Any, ...]:
    """What is there now; what comes meanwhile stays."""
    return tuple(items.popleft() for _ in range(len(items)))


def main() -> None:
    """Runs the worker of the socket that the first argument names, for the process that the second names."""
    tie_to(int(sys.argv[2]))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for the server
    uvloop.run(work(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
