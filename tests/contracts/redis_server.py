"""A real Redis server for tests: of its own port, in memory only, gone when the tests are."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(folder: Path, *options: str, port: int | None = None) -> Iterator[str]:
    """Its URL; needs Debian's `redis-server`."""
    program = shutil.which("redis-server")
    assert program, "redis-server is needed: tools/setup.sh test-packages"
    port = port or free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert server.poll() is None, "redis-server has ended"
            assert time.monotonic() < deadline, "redis-server does not listen"
            time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(10)
