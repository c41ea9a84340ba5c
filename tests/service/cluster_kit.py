"""A small cluster of real processes: a broker, a Redis, gateways and workers, which tests may kill and freeze."""

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from streamscribe.client.address import websocket_url
from tests.contracts.kafka_broker import Broker, kafka_broker
from tests.contracts.redis_server import redis_server

SETTINGS = {
    "kafka.replication": "1",
    "kafka.audio_partitions": "8",
    "kafka.result_partitions": "8",
    "kafka.finalize_partitions": "1",
    "kafka.session_timeout_ms": "1000",
    "store.timeout_s": "2",
    "observe.log_level": "error",
    "limits.max_newcomers": "100000",
    "limits.max_lag_ms": "60000",
    "model.fake_cost_ms": "20",
}


@dataclass
class Role:
    """One process of the cluster that is ready."""

    process: "subprocess.Popen[str]"
    url: str

    @property
    def websocket(self) -> str:
        return websocket_url(self.url)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait)


@dataclass
class Cluster:
    """The broker, the Redis' URL, and who runs; what a test starts it also ends."""

    broker: Broker
    redis_url: str
    more: dict[str, str] = field(default_factory=dict)
    _exit: ExitStack = field(default_factory=ExitStack)

    @property
    def flags(self) -> list[str]:
        settings = SETTINGS | {"kafka.brokers": self.broker.address, "store.redis_url": self.redis_url} | self.more
        return [flag for name, value in settings.items() for flag in ("--set", f"{name}={value}")]

    def gateway(self, *more: str) -> Role:
        return self._start("gateway", "--port", "0", "--funasr-port", "-1", *more)

    def worker(self, *more: str) -> Role:
        return self._start("worker", "--profile", "fake", "--health-port", "0", *more)

    def finalizer(self, *more: str) -> Role:
        return self._start("finalizer", "--profile", "fake", "--health-port", "0", *more)

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-m", "streamscribe.cli", *command, *self.flags]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def _start(self, role: str, *arguments: str) -> Role:
        errors = self._exit.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - the stack closes it
        words = [sys.executable, "-m", "streamscribe.cli", role, "--json", *self.flags, *arguments]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._exit.callback(_end, process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            errors.seek(0)
            raise AssertionError(f"the {role} did not start: {errors.read()[-2000:]}")
        return Role(process, json.loads(line)["url"])

    def close(self) -> None:
        self._exit.close()


@contextmanager
def cluster(folder: Path, *options: str, **more: str) -> Iterator[Cluster]:
    """Broker, Redis and topics; no gateway and no worker yet."""
    with kafka_broker(folder) as broker, redis_server(folder, *options) as redis_url:
        made = Cluster(broker, redis_url, dict(more))
        told = made.run("topics", "ensure")
        assert told.returncode == 0, told.stderr
        try:
            yield made
        finally:
            made.close()


def _end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()
