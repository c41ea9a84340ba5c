"""One worker process where the machine is short of processes and threads."""

import asyncio
import errno
import os
import signal
import sys
from typing import NoReturn

import pytest

from streamscribe.bootstrap.fleet import process
from streamscribe.bootstrap.fleet.process import WorkerProcess


async def start() -> WorkerProcess:
    return await WorkerProcess.start(0, dict, lambda status: None)


def no_thread(*args: object) -> NoReturn:
    raise RuntimeError("can't start new thread")


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes no notice of anything."""
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
@pytest.mark.parametrize("what", ["socketpair", "process", "link"])
async def test_whatever_a_worker_lacks_at_its_start_is_an_error_of_the_system_and_nothing_is_left(
    what: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*args: object, **named: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    before = os.listdir("/proc/self/fd")
    place = {"socketpair": process.socket, "process": process.subprocess, "link": process.Link}[what]
    monkeypatch.setattr(place, {"socketpair": "socketpair", "process": "Popen", "link": "open"}[what], short)
    with pytest.raises(OSError, match=os.strerror(number)):
        await start()
    assert os.listdir("/proc/self/fd") == before


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
