"""Worker processes that never get ready: who runs the server is told why, and what to change."""

import asyncio
import errno
import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from streamscribe.bootstrap.fleet import supervisor as supervisors
from streamscribe.bootstrap.fleet.supervisor import TRIES, Supervisor
from streamscribe.core.errors import ModelUnavailable
from streamscribe.settings import SettingsError, WorkerSettings
from streamscribe.wire.worker_control import Status
from tests.sim.clock import run_virtually

MOST_BYTES = 100_000_000
STARTS, READY = Status(("models",), 50_000_000), Status((), 50_000_000)
TOO_LARGE = Status(("models",), 180_000_000)


class Link:
    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Process:
    """A worker process that says `status` as it starts, and then ends by itself, or says it again and again."""

    pid = 1

    def __init__(self, status: Status, exit_code: int | None) -> None:
        self.status = status
        self.code = exit_code
        self.link = Link()
        self.unfit: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if exit_code is not None:
            asyncio.get_running_loop().call_later(1.0, self.link.closed.set_result, None)

    @property
    def statuses(self) -> float:
        """It has always said something since the last look, unless it hangs."""
        return 0 if self.status is STARTS and self.code is None else asyncio.get_running_loop().time()

    async def exit_code(self, within_s: float) -> int | None:
        return self.code

    async def end(self) -> int:
        return self.code or 0

    async def kill(self) -> int:
        return -9


class Ends:
    """The door, the bus and the observer of a supervisor: nothing is asked of them here."""

    def __init__(self) -> None:
        self.members: dict[int, bool] = {}
        self.suspected: list[bool] = []
        self.killed: list[bool] = []
        self.causes: list[str] = []

    def join(self, member: int, link: object = None) -> None:
        self.members[member] = True

    def leave(self, member: int, *, suspect: bool | None = None, killed: bool = False) -> None:
        self.members.pop(member, None)
        if suspect is not None:
            self.suspected.append(suspect)
            self.killed.append(killed)

    def worker_ended(self, cause: str) -> None:
        self.causes.append(cause)

    def worker_weighs(self, number: int, resident_bytes: int) -> None: ...


async def kept(
    start: Callable[[int], Process], monkeypatch: pytest.MonkeyPatch, processes: int = 1, told: Ends | None = None
) -> int:
    """Supervises workers until that ends with an error, or for ten minutes; how many were started."""
    ends: Any = told or Ends()
    settings = WorkerSettings(processes=processes, max_memory_bytes=MOST_BYTES)
    supervisor = Supervisor(ends, ends, settings, ends, dict)
    started = 0

    async def begin(number: int, settings: object, on_status: object) -> Process:
        nonlocal started
        started += 1
        return start(number)

    monkeypatch.setattr(supervisors.WorkerProcess, "start", begin)
    try:
        async with asyncio.timeout(600):
            await supervisor.run()
    except TimeoutError:
        return started
    except Exception as error:
        error.add_note(f"{started}")
        raise
    return started


@pytest.mark.parametrize(
    ("status", "exit_code", "kind", "told"),
    [
        (
            TOO_LARGE,
            None,
            SettingsError,
            r"worker\.max_memory_bytes: .* 3 times .* 180000000 bytes.* 100000000; set more",
        ),
        (STARTS, 3, ModelUnavailable, r"worker-0 ended 3 times before it was ready: .*exit code 3"),
        (STARTS, -9, ModelUnavailable, r"ended 3 times .* signal 9 \(is there memory enough"),
        (STARTS, None, ModelUnavailable, r"ended 3 times .* said nothing"),
    ],
    ids=["too large", "ends", "killed", "hangs"],
)
def test_a_worker_that_dies_before_it_is_ready_again_and_again_ends_the_server_which_says_why(
    status: Status, exit_code: int | None, kind: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(kind, match=told) as error:
        run_virtually(lambda: kept(lambda _: Process(status, exit_code), monkeypatch))
    assert error.value.__notes__ == [f"{TRIES}"]


def test_while_another_worker_serves_it_is_tried_on_and_the_log_says_why() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, capture_logs() as logs:
        started, _ = run_virtually(
            lambda: kept(lambda number: Process(TOO_LARGE if number else READY, None), monkeypatch, processes=2)
        )
    assert started > 2 + TRIES
    told = [line["detail"] for line in logs if line["event"] == "a worker process does not get ready"]
    assert len(told) == started - TRIES  # one is well, and the first two ends may be chance
    assert all("worker.max_memory_bytes" in line and "180000000" in line for line in told)


def test_workers_that_were_ready_before_they_ended_are_started_on() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, capture_logs() as logs:
        started, _ = run_virtually(lambda: kept(lambda _: Process(READY, 1), monkeypatch))
    assert started > TRIES
    assert {line["event"] for line in logs} == {"a worker process ended", "a worker process is ready"}


@pytest.mark.parametrize("reason", [errno.ENOMEM, errno.EAGAIN, errno.EMFILE])
def test_a_machine_that_can_start_no_process_for_a_while_costs_the_other_workers_nothing(reason: int) -> None:
    started, ends = Counter[int](), Ends()

    def start(number: int) -> Process:
        started[number] += 1
        if number and started[number] <= 2 * TRIES:
            raise OSError(reason, os.strerror(reason))
        return Process(READY, None)

    with pytest.MonkeyPatch.context() as monkeypatch, capture_logs() as logs:
        run_virtually(lambda: kept(start, monkeypatch, processes=2, told=ends))
    assert started == {0: 1, 1: 2 * TRIES + 1}
    assert ends.causes == ["start"] * 2 * TRIES
    told = [line for line in logs if line["event"] == "a worker process ended"]
    assert all(os.strerror(reason) in line["detail"] for line in told)
    pauses = [line["seconds"] for line in told]
    assert pauses == sorted(set(pauses)), "each pause is longer than the last"


def test_a_machine_that_can_start_no_process_at_first_ends_the_server_which_says_why() -> None:
    def start(number: int) -> Process:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(ModelUnavailable, match="Cannot allocate memory"):
        run_virtually(lambda: kept(start, monkeypatch))


@pytest.mark.parametrize(("leaves", "cause"), [(True, "left"), (False, "exit")])
def test_the_sessions_of_a_worker_that_was_told_to_leave_are_not_suspected_of_its_end(leaves: bool, cause: str) -> None:
    ends, started = Ends(), 0

    def start(number: int) -> Process:
        nonlocal started
        started += 1
        process = Process(READY, None)
        if started == 1:
            done = process.leaving if leaves else process.link.closed
            asyncio.get_running_loop().call_later(30.0, done.set_result, None)
        return process

    with pytest.MonkeyPatch.context() as monkeypatch:
        run_virtually(lambda: kept(start, monkeypatch, told=ends))
    assert ends.causes == [cause]
    assert ends.suspected[0] is not leaves
    assert started == 2


@pytest.mark.parametrize(
    ("exit_code", "killed"), [(-signal.SIGKILL, True), (-signal.SIGSEGV, False), (1, False), (None, False)]
)
def test_who_killed_a_worker_is_told_from_its_exit_code(exit_code: int | None, *, killed: bool) -> None:
    ends = Ends()

    def start(number: int) -> Process:
        process = Process(READY, None)
        if not ends.causes:
            process.code = exit_code
            asyncio.get_running_loop().call_later(30.0, process.link.closed.set_result, None)
        return process

    with pytest.MonkeyPatch.context() as monkeypatch:
        run_virtually(lambda: kept(start, monkeypatch, told=ends))
    assert ends.causes == ["exit"]
    assert (ends.suspected[0], ends.killed[0]) == (True, killed)


def test_who_is_killed_for_a_hang_counts_as_ended() -> None:
    ends = Ends()
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(ModelUnavailable):
        run_virtually(lambda: kept(lambda _: Process(STARTS, None), monkeypatch, told=ends))
    assert set(zip(ends.causes, ends.suspected, ends.killed, strict=True)) == {("hang", True, False)}
