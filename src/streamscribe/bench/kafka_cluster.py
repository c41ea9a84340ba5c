"""A cluster as a measurement has it: broker, Redis, gateways and workers, each a process that may be harmed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from socket import create_connection
from time import perf_counter
from typing import IO

import httpx

from streamscribe.bench.load import OPEN_DOOR
from streamscribe.bench.metrics import counted
from streamscribe.bootstrap.cluster.services import broker_command, free_port, redis_command
from streamscribe.client.address import websocket_url
from streamscribe.core.errors import BusUnavailable

AUDIO_PARTITIONS = 24
RESULT_PARTITIONS = 16
COST_MS = 10
START_TIMEOUT_S = 20.0
SETTLE_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.25


class Foreign:
    """A broker or a Redis of the measurement's own. It keeps all in memory: what is started again knows nothing."""

    def __init__(self, command: Sequence[str], port: int, folder: Path) -> None:
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._command = command
        self._folder = folder
        self.start()

    def start(self) -> None:
        """Returns when it listens. Raises BusUnavailable where it does not."""
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until_s = perf_counter() + START_TIMEOUT_S
        while perf_counter() < until_s and self._process.poll() is None:
            with suppress(OSError), create_connection(("127.0.0.1", self._port), 1):
                return
        self.kill()
        raise BusUnavailable(f"{self._command[0]} does not listen")

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """It answers nothing, and keeps its connections."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """It is gone, and then there is another one in its place."""
        self.kill()
        try:
            yield
        finally:
            await asyncio.to_thread(self.start)


class Role:
    """A gateway or a worker that is ready."""

    def __init__(self, process: "subprocess.Popen[str]", errors: IO[str]) -> None:
        self.process = process
        self.url = ""
        self._errors = errors

    async def ready(self) -> None:
        """Waits for its word. Raises BusUnavailable with its last words where it ended before."""
        line = await asyncio.to_thread(self.process.stdout.readline) if self.process.stdout else ""
        if not line:
            raise self._ended()
        self.url = json.loads(line)["url"]

    @property
    def websocket(self) -> str:
        """Of a gateway."""
        return websocket_url(self.url)

    async def counted(self, name: str) -> float:
        """The sum of a metric's samples, whatever their labels; 0 where there are none. Raises BusUnavailable."""
        try:
            return await counted(self.url, name)
        except httpx.ConnectError:
            raise self._ended() from None

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        os.kill(self.process.pid, number)

    async def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait)

    def _ended(self) -> BusUnavailable:
        self._errors.seek(0)
        code = self.process.poll()
        return BusUnavailable(f"a role ended (exit code {code}) that should not: {self._errors.read()[-500:]}")


class Cluster:
    """Who runs now; made by `kafka_cluster`, which also ends it."""

    def __init__(self, broker: Foreign, redis: Foreign, exit_stack: ExitStack) -> None:
        self.broker = broker
        self.redis = redis
        self.gateways: dict[int, Role] = {}
        self.workers: list[Role] = []
        self._exit = exit_stack
        self._ports: dict[int, int] = {}
        settings = {
            "kafka.brokers": broker.address,
            "kafka.replication": 1,
            "kafka.audio_partitions": AUDIO_PARTITIONS,
            "kafka.result_partitions": RESULT_PARTITIONS,
            "kafka.finalize_partitions": 1,
            "kafka.topic_prefix": f"bench-{os.getpid()}-",
            "store.redis_url": f"redis://{redis.address}/0",
            "observe.log_level": "error",
            "limits.max_sessions": 5000,
            "limits.max_tenant_sessions": 5000,
        }
        self._flags = [*(f"--set={name}={value}" for name, value in settings.items()), *OPEN_DOOR]

    @property
    def urls(self) -> list[str]:
        """Of the gateways' WebSockets."""
        return [gateway.websocket for gateway in self.gateways.values()]

    async def topics(self) -> None:
        """Makes the topics."""
        done = await asyncio.to_thread(
            subprocess.run, _command("topics", "ensure", *self._flags), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BusUnavailable(done.stderr.strip()[-500:])

    async def add_gateway(self, number: int) -> None:
        """One more; of a number that was here before it is the next life, at the same port."""
        port = self._ports.setdefault(number, free_port())
        own = ("--port", str(port), "--funasr-port", "-1")
        self.gateways[number] = await self._start("gateway", *own)

    async def add_workers(self, count: int) -> None:
        """So many more, at once; returns when each is ready and the group has shared its partitions among all."""
        own = ("--profile=fake", "--health-port=0", f"--set=model.fake_cost_ms={COST_MS}")
        self.workers += await asyncio.gather(*(self._start("worker", *own) for _ in range(count)))
        await self.settled()

    async def settled(self) -> None:
        """Returns when each partition has one worker, and each worker some; raises BusUnavailable after long."""
        shares: list[float] = []
        until_s = perf_counter() + SETTLE_TIMEOUT_S
        while perf_counter() < until_s:
            shares = await asyncio.gather(*(one.counted("streamscribe_bus_partitions") for one in self.workers))
            if sum(shares) == AUDIO_PARTITIONS and all(shares):
                return
            await asyncio.sleep(LOOK_EVERY_S)
        told = ", ".join(f"{share:g}" for share in shares)
        raise BusUnavailable(
            f"{AUDIO_PARTITIONS} partitions, of which the workers have {told} for {SETTLE_TIMEOUT_S:g} s"
        )

    async def _start(self, role: str, *arguments: str) -> Role:
        errors: IO[str] = self._exit.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - the stack closes it
        command = _command(role, "--json", *arguments, *self._flags)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)  # noqa: ASYNC220 - quick
        self._exit.callback(_end, process)
        started = Role(process, errors)
        await started.ready()
        return started


@asynccontextmanager
async def kafka_cluster(gateways: int, workers: int) -> AsyncIterator[Cluster]:
    """A cluster that is ready, with a broker and a Redis of its own."""
    with foreign(broker_command) as broker, foreign(redis_command) as redis, ExitStack() as stack:
        cluster = Cluster(broker, redis, stack)
        await cluster.topics()
        await asyncio.gather(*(cluster.add_gateway(number) for number in range(gateways)), cluster.add_workers(workers))
        yield cluster


@contextmanager
def foreign(command: Callable[[int], Sequence[str]]) -> Iterator[Foreign]:
    """One that listens, at a free port and in a folder of its own; it ends with the context."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        running = Foreign(command(port), port, Path(folder))
        try:
            yield running
        finally:
            running.kill()


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "streamscribe.cli", *words]


def _end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()
