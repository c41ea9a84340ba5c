"""A server process of our own, for the demo, the measurements and the service tests."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from streamscribe.client.address import websocket_url
from streamscribe.core.errors import ModelUnavailable

STOP_TIMEOUT_S = 60.0
SERVE = ("streamscribe.cli", "serve", "--json", "--port", "0", "--funasr-port", "0")
_WORKER = b"streamscribe.bootstrap.worker_process"
_QUIET = ("--set", "observe.log_level=error")


class ServerDidNotStart(ModelUnavailable):
    """The process ended before it was ready; the message has its last words, `exit_code` what it ended with."""

    def __init__(self, exit_code: int, last_words: str) -> None:
        self.exit_code = exit_code
        super().__init__(last_words or f"the server ended with exit code {exit_code} before it was ready")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a started server listens; `ready_s` is the time from its start to its readiness."""

    http: str
    funasr: str | None
    ready_s: float

    @property
    def websocket(self) -> str:
        """URL of the native WebSocket."""
        return websocket_url(self.http)


class LocalServer:
    """Context manager: `streamscribe serve` on free loopback ports, ready when entered, drained when left.

    Its errors go to `log`, where one is given. `program` is another one that says where it listens in the same words.
    Raises ServerDidNotStart.
    """

    def __init__(
        self, arguments: Sequence[str] = (), *, log: IO[str] | None = None, program: Sequence[str] = SERVE
    ) -> None:
        self._command = [sys.executable, "-m", *program, *(_QUIET if program is SERVE and not log else ()), *arguments]
        self._log = log
        self._exit = ExitStack()

    def __enter__(self) -> "RunningServer":
        with self._exit:
            errors = self._log or self._exit.enter_context(tempfile.TemporaryFile("w+"))
            process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)
            self._exit.callback(_stop, process)
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                process.wait()
                raise ServerDidNotStart(process.returncode, _last_line(errors))
            told = json.loads(line)
            self._exit = self._exit.pop_all()
        return RunningServer(process, ServerAddress(told["url"], told["funasr_url"], told["ready_s"]))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()


def _last_line(errors: IO[str]) -> str:
    if not (errors.seekable() and errors.readable()):
        return ""
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else ""


def _stop(process: "subprocess.Popen[str]") -> None:
    """Drains the server; kills it when that takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that is ready, and what the operating system says of it."""

    process: "subprocess.Popen[str]"
    address: ServerAddress

    @property
    def cpu_s(self) -> float:
        """Processor seconds used so far, all threads, and those of its worker processes."""
        ticks = sum(sum(map(int, _stat(pid)[11:13])) for pid in self._pids())
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self, field: str = "VmRSS") -> int:
        """Resident memory now (`VmRSS`) or at its peak (`VmHWM`), with that of its worker processes."""
        return sum(_memory_bytes(pid, field) for pid in self._pids())

    def worker_pids(self) -> list[int]:
        """Its worker processes now."""
        by_thread = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [pid for told in by_thread for pid in told.read_text().split()]
        return sorted(int(pid) for pid in children if _WORKER in Path(f"/proc/{pid}/cmdline").read_bytes())

    def _pids(self) -> list[int]:
        return [self.process.pid, *self.worker_pids()]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _memory_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise ModelUnavailable("the server has ended")
