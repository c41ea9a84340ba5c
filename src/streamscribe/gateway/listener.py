"""Listens: one uvicorn server per port, all in this event loop, with no signal handlers and no access log."""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.types import ASGIApp

from streamscribe.gateway.protocols import BoundedHttpProtocol, BoundedWebSocketProtocol
from streamscribe.settings import GatewaySettings, LimitSettings, SettingsError

BACKLOG = 2048
SEND_BUFFER_BYTES = 128 * 2**10
"""What the kernel holds for a client that does not read, instead of the megabytes that it would grow to."""
PING_S = 20.0
"""Between pings, and for the answer: a peer that is gone is noticed in twice that."""
KEEP_ALIVE_S = 5
GRACE_S = 2
CLOSE_S = 1.0


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 takes a free one. `field` names the setting in errors."""

    host: str
    port: int
    field: str


@dataclass(frozen=True)
class Binding:
    """An application and the socket that it is served on."""

    app: ASGIApp
    socket: socket.socket


@contextmanager
def bound(*addresses: Address) -> Iterator[list[socket.socket]]:
    """Takes the ports, all or none, and closes them in the end; nobody can connect before a `Listener` serves them.

    So a server that cannot have its port says so before it loads models, and nobody takes it meanwhile. Raises
    SettingsError that names the field.
    """
    ours = {address.port for address in addresses}
    with ExitStack() as stack:
        yield [stack.enter_context(closing(_bind(address, ours))) for address in addresses]


def is_everywhere(host: str) -> bool:
    """Whether who listens there does so on all addresses of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def url_here(scheme: str, host: str, port: int) -> str:
    """By which a client on this machine reaches who listens on the host: by loopback where that means everywhere."""
    if is_everywhere(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """Leaves signals to us, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: the drain comes before the shutdown."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept."""
        await super().startup(sockets)
        self.listening.set()


class Listener:
    """Serves while its context is open; `ports` are those bound, in the order of the bindings.

    Leaving closes what is still open at once: drain before.
    """

    def __init__(
        self, bindings: Sequence[Binding], gateway: GatewaySettings, limits: LimitSettings, *, ping_s: float = PING_S
    ) -> None:
        self._ping_s = ping_s
        self._bindings = bindings
        self._gateway = gateway
        self._limits = limits
        self._servers: list[_Server] = []
        self._stack = AsyncExitStack()
        self.ports: list[int] = []

    async def __aenter__(self) -> Self:
        self.ports = [binding.socket.getsockname()[1] for binding in self._bindings]
        for binding in self._bindings:
            listen(binding.socket)
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for binding in self._bindings:
            server = _Server(self._config(binding.app))
            self._servers.append(server)
            group.create_task(server.serve([binding.socket]))
            await server.listening.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._let_close()
        for server in self._servers:
            server.should_exit = True
        await self._stack.aclose()

    async def _let_close(self) -> None:
        """Waits a moment for closing handshakes: a socket closed while audio still comes in resets, and what the
        client has not read of its last results is lost."""
        try:
            async with asyncio.timeout(CLOSE_S):
                while any(  # noqa: ASYNC110  uvicorn tells nobody when one goes
                    isinstance(connection, BoundedWebSocketProtocol)
                    for server in self._servers
                    for connection in server.server_state.connections
                ):
                    await asyncio.sleep(CLOSE_S / 50)
        except TimeoutError:
            return

    def _config(self, app: ASGIApp) -> uvicorn.Config:
        http: Any = partial(BoundedHttpProtocol, handshake_timeout_s=self._gateway.handshake_timeout_s)
        return uvicorn.Config(
            app,
            http=http,
            ws=BoundedWebSocketProtocol,
            ws_max_size=int(self._limits.max_message_bytes),
            ws_ping_interval=self._ping_s,
            ws_ping_timeout=self._ping_s,
            ws_per_message_deflate=False,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="warning",  # its lines below that hold query strings, and with them keys
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )


def _bind(address: Address, ours: Collection[int]) -> socket.socket:
    taken = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are closing hold no port
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        taken.bind((address.host, address.port))
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # else others may bind it until somebody listens
    except OSError as error:
        taken.close()
        reason = error.strerror or str(error)
        flag = address.field.rpartition(".")[2].replace("_", "-")
        another = next((port for port in range(address.port + 1, 2**16) if port not in ours), 0)
        hint = f"; --{flag} {another} takes another" if error.errno == errno.EADDRINUSE else ""
        raise SettingsError(
            f"{address.field}: cannot listen on {address.host} port {address.port}: {reason}{hint}"
        ) from None
    return taken


def listen(taken: socket.socket) -> None:
    """Before the event loop does: uvloop says nothing where another program listens there by now.

    Of a socket of `bound`, whose connections then hold the port no longer than they are open. Raises SettingsError.
    """
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.listen(BACKLOG)
    except OSError as error:
        host, port = taken.getsockname()[:2]
        raise SettingsError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
