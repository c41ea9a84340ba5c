"""One worker process, and the talk with it."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Literal, Self

import msgspec

from streamscribe.bus.local.link import Kind, Link
from streamscribe.core.errors import ModelUnavailable, StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.wire import worker_control as control

COMMAND = (sys.executable, "-P", "-m", "streamscribe.bootstrap.worker_process")
LEAVE_S = 5.0
"""How long a worker that was told to stop may take before it is killed."""

LOOK_EVERY_S = 0.02
"""At one that is about to end."""

What = Literal["metrics", "facts", "outline", "purge", "reload"]


class WorkerProcess:
    """A child in a session of its own, joined by a socket that nobody else has. Made with `start`.

    `status` is what it told last, `statuses` how often it told one.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", link: Link, on_status: Callable[[control.Status], None]):
        self.link = link
        self.status = control.Status(waiting_for=("start",), rss_bytes=0)
        self.statuses = 0
        self.unfit: asyncio.Future[StreamScribeError] = asyncio.get_running_loop().create_future()
        """Done when it says that it cannot work at all, with why."""
        self.leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it says that others want it to end; it works on until `end`."""
        self._process = process
        self._on_status = on_status
        self._ids = count()
        self._asked: dict[int, asyncio.Future[msgspec.Raw]] = {}
        link.on(Kind.CONTROL, self._hear)

    @classmethod
    async def start(
        cls, number: int, settings: Callable[[], dict[str, Any]], on_status: Callable[[control.Status], None]
    ) -> Self:
        """Starts it, off the event loop, and tells it its settings, as they are when this returns.

        Raises OSError where none can be started now.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.to_thread(_popen, theirs)
        except RuntimeError:  # no thread can be started, as no process could
            ours.close()
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            link = await Link.open(ours)
        except BaseException:
            ours.close()  # by which the process ends, too
            process.kill()
            await _ended(process)
            raise
        worker = cls(process, link, on_status)
        worker.link.send(Kind.CONTROL, control.encode(control.Begin(number, settings())))
        return worker

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def ask(
        self, what: What, *, tenant: TenantId | None = None, settings: dict[str, Any] | None = None, timeout_s: float
    ) -> msgspec.Raw:
        """Its answer, as JSON. Raises the error that it met, ModelUnavailable when it is gone or slow."""
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        number = next(self._ids)
        self._asked[number] = answer
        try:
            name = None if tenant is None else str(tenant)
            self.link.send(Kind.CONTROL, control.encode(control.Ask(number, what, name, settings)))
            done, _ = await asyncio.wait(
                (answer, self.link.closed), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if answer not in done:
                raise ModelUnavailable("a worker process gave no answer")
            return answer.result()
        finally:
            del self._asked[number]
            answer.cancel()

    async def end(self) -> int:
        """Lets it leave, or kills it if it does not; its exit code (negative: the signal)."""
        self.link.send(Kind.CONTROL, control.encode(control.Stop()))
        self.link.close()
        code = await self.exit_code(LEAVE_S)
        return await self.kill() if code is None else code

    async def exit_code(self, within_s: float) -> int | None:
        """That of a process that ends by itself (negative: the signal); None where it takes longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await _ended(self._process)
        return None

    async def kill(self) -> int:
        """Ends it at once."""
        self._process.kill()
        self.link.close()
        return await _ended(self._process)

    def _hear(self, payload: memoryview) -> None:
        said = control.for_gateway(payload)
        match said:
            case control.Status():
                self.statuses += 1
                self.status = said
                self._on_status(said)
            case control.Answer():
                self._answered(said)
            case control.Unfit():
                if not self.unfit.done():
                    self.unfit.set_result(said.problem.error())
            case control.Leaving():
                if not self.leaving.done():
                    self.leaving.set_result(None)

    def _answered(self, said: control.Answer) -> None:
        answer = self._asked.get(said.id)
        if answer is None or answer.done():
            return
        if said.problem is None:
            answer.set_result(said.value.copy())  # it is a view of the link's buffer
        else:
            answer.set_exception(said.problem.error())


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Its exit code, once it has one; without a thread, as there may be none where processes end."""
    while (code := process.poll()) is None:  # noqa: ASYNC110 - nobody tells it
        await asyncio.sleep(LOOK_EVERY_S)
    return code


def _popen(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """By vfork (`audio.child` says why); standard error is the server's, for its logs.

    The child dies with the thread that runs this (`bootstrap.tie`): one of the loop's own, which lives as long as it.
    """
    theirs.set_inheritable(True)
    return subprocess.Popen(
        [*COMMAND, str(theirs.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
    )
