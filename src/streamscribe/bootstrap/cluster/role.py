"""One role of a small cluster on this machine: started again when it dies, ended when all is over."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streamscribe.bootstrap.cluster.child import Child
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.restarts import Restarts

PROGRAM = (sys.executable, "-P", "-m", "streamscribe.cli")


class RoleDidNotStart(ModelUnavailable):
    """A role ended before it was ever ready; the message has its last words."""


@dataclass(frozen=True, slots=True)
class RoleAddress:
    """A role that is ready: `gateway-0`, its process, where it listens (a worker: where it tells how it is)."""

    name: str
    pid: int
    url: str
    funasr_url: str | None = None


class Audience(Protocol):
    """Who is told what happens in the cluster."""

    def step(self, what: str) -> None:
        """What is done now, while it starts and while it ends."""
        ...

    def said(self, name: str, line: str) -> None:
        """A line of a role's log."""
        ...

    def role_ready(self, role: RoleAddress) -> None:
        """A role is ready, at first or again."""
        ...

    def role_ended(self, name: str, exit_code: int, again_in_s: float) -> None:
        """A role has died (negative: by that signal); so soon it is started again."""
        ...


class Role:
    """A process of `streamscribe COMMAND --json`, kept alive from `keep` on until `stop`."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], audience: Audience) -> None:
        self.name = name
        self.address: RoleAddress | None = None
        """Where it is; None while it is not ready."""
        self.ready = asyncio.Event()
        """Set once it was ready."""
        self._command = (*PROGRAM, *command, "--json")
        self._environment = {**os.environ, **environment}
        self._audience = audience
        self._child: Child | None = None
        self._to_hang_up = False
        self._stopping = asyncio.Event()

    async def keep(self) -> int:
        """Until it was stopped: its last exit code. Raises RoleDidNotStart where it never was ready."""
        restarts, loop = Restarts(), asyncio.get_running_loop()
        while True:
            try:
                child = self._child = await Child.start(self._command, self._hear_error, environment=self._environment)
            except OSError as error:  # no process can be started now: tried again as one that ended at once
                code, lived_s, why = os.EX_OSERR, 0.0, f"no process can be started: {error}"
                self._audience.said(self.name, why)
            else:
                born = loop.time()
                if self._stopping.is_set():
                    child.signal(signal.SIGTERM)
                code = await child.run(self._hear)
                lived_s = loop.time() - born if self.address is not None else 0.0
                why = _words(child.last_line) or f"ended with exit code {code}"
            self.address = self._child = None
            if self._stopping.is_set():
                return code
            if not self.ready.is_set():
                raise RoleDidNotStart(f"{self.name}: {why}")
            pause_s = restarts.ended(lived_s)
            self._audience.role_ended(self.name, code, pause_s)
            if await _sooner(self._stopping, pause_s):
                return code

    def signal(self, number: int) -> None:
        """Sends a signal to its process, if it has one now."""
        if self._child is not None:
            self._child.signal(number)

    def hang_up(self) -> None:
        """Lets it read its settings again: now, or once it is ready."""
        self._to_hang_up = self.address is None
        if not self._to_hang_up:
            self.signal(signal.SIGHUP)

    def stop(self) -> None:
        """Lets it end for good: as SIGTERM lets its command."""
        self._stopping.set()
        self.signal(signal.SIGTERM)

    def _hear(self, line: str) -> None:
        told = json.loads(line)
        assert self._child is not None  # noqa: S101 - only who runs is heard
        self.address = RoleAddress(self.name, self._child.pid, told["url"], told.get("funasr_url"))
        self.ready.set()
        self._audience.role_ready(self.address)
        if self._to_hang_up:
            self.hang_up()

    def _hear_error(self, line: str) -> None:
        self._audience.said(self.name, line)


def _words(line: str) -> str:
    return line.removeprefix("error: ")


async def _sooner(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came within the time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
