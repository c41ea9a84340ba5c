"""Worker processes that never get ready: who runs the server is told why, and what to change."""

import asyncio
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
        self.exit_code = exit_code
        self.link = Link()
        self.unfit: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if exit_code is not None:
            asyncio.get_running_loop().call_later(1.0, self.link.closed.set_result, None)

    @property
    def statuses(self) -> float:
        """It has always said something since the last look, unless it hangs."""
        return 0 if self.status is STARTS and self.exit_code is None else asyncio.get_running_loop().time()

    async def end(self) -> int:
        return self.exit_code or 0

    async def kill(self) -> int:
        return -9


class Ends:
    """The door, the bus and the observer of a supervisor: nothing is asked of them here."""

    def __init__(self) -> None:
        self.members: dict[int, bool] = {}

    def join(self, member: int, link: object = None) -> None:
        self.members[member] = True

    def leave(self, member: int, *, suspect: bool = True) -> None:
        self.members.pop(member, None)

    def worker_ended(self, cause: str) -> None: ...

    def worker_weighs(self, number: int, resident_bytes: int) -> None: ...


async def kept(start: Callable[[int], Process], monkeypatch: pytest.MonkeyPatch, processes: int = 1) -> int:
    """Supervises workers until that ends with an error, or for ten minutes; how many were started."""
    ends: Any = Ends()
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
