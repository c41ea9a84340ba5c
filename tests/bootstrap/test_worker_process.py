"""One worker process where the machine is short of processes and threads."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from typing import Any, NoReturn

import pytest

from streamscribe.bootstrap.fleet import process
from streamscribe.bootstrap.fleet.process import WorkerProcess
from streamscribe.bus.local.link import Link


async def start() -> WorkerProcess:
    return await WorkerProcess.start(0, dict, lambda status: None)


def no_thread(*args: object) -> NoReturn:
    raise RuntimeError("can't start new thread")


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes no notice of anything."""
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))


class Made:
    """The sockets and processes that a start makes, and what it lacks."""

    def __init__(self, patched: pytest.MonkeyPatch, what: str, number: int) -> None:
        def short(*args: object, **named: object) -> NoReturn:
            raise OSError(number, os.strerror(number))

        def socketpair() -> tuple[socket.socket, socket.socket]:
            pair = pairs()
            self.sockets += pair
            return pair

        def popen(*args: Any, **named: Any) -> "subprocess.Popen[bytes]":
            self.processes.append(started(*args, **named))
            return self.processes[-1]

        self.sockets: list[socket.socket] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        pairs, started = socket.socketpair, subprocess.Popen
        patched.setattr(socket, "socketpair", short if what == "socketpair" else socketpair)
        patched.setattr(subprocess, "Popen", short if what == "process" else popen)
        if what == "link":
            patched.setattr(Link, "open", short)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
@pytest.mark.parametrize(("what", "sockets", "processes"), [("socketpair", 0, 0), ("process", 2, 0), ("link", 2, 1)])
async def test_whatever_a_worker_lacks_at_its_start_is_an_error_of_the_system_and_nothing_is_left(
    what: str, sockets: int, processes: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        made = Made(patched, what, number)
        with pytest.raises(OSError, match=os.strerror(number)):
            await start()
    assert [one.fileno() for one in made.sockets] == [-1] * sockets
    assert [one.returncode for one in made.processes] == [-signal.SIGKILL] * processes


async def test_without_a_thread_none_is_started_and_one_that_runs_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "LEAVE_S", 0.0)
    first, second = await start(), await start()
    monkeypatch.setattr(asyncio, "to_thread", no_thread)
    with pytest.raises(BlockingIOError):
        await start()
    assert await first.exit_code(0.0) is None
    assert await first.kill() == await first.exit_code(0.0) == -signal.SIGKILL
    assert await second.end() == -signal.SIGKILL
