"""A server process of our own, for the demo, the measurements and the service tests."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from streamscribe.core.errors import ModelUnavailable

STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a started server listens; `ready_s` is the time from its start to its readiness."""

    http: str
    funasr: str | None
    ready_s: float

    @property
    def websocket(self) -> str:
        """URL of the native WebSocket."""
        return self.http.replace("http", "ws", 1) + "/ws/asr"


class LocalServer:
    """Context manager: `streamscribe serve` on free loopback ports, ready when entered, drained when left.

    Raises ModelUnavailable with the server's last words when it ends before it is ready.
    """

    def __init__(self, arguments: Sequence[str] = (), *, log: IO[str] | None = None) -> None:
        command = [sys.executable, "-m", "streamscribe.cli", "serve", "--json", "--port", "0", "--funasr-port", "0"]
        self._command = [*command, *arguments]
        self._log = log
        self._exit = ExitStack()

    def __enter__(self) -> "RunningServer":
        process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log or subprocess.DEVNULL, text=True
        )
        self._exit.callback(_stop, process)
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            self._exit.close()
            raise ModelUnavailable(f"the server ended with code {process.returncode} before it was ready")
        told = json.loads(line)
        return RunningServer(process, ServerAddress(told["url"], told["funasr_url"], told["ready_s"]))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()


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
        """Processor seconds used so far, all threads."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self, field: str = "VmRSS") -> int:
        """Resident memory now (`VmRSS`) or at its peak (`VmHWM`)."""
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
        raise ModelUnavailable("the server has ended")
