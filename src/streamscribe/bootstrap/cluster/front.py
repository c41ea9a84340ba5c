"""One address before several gateways on this machine: each connection goes to one that is fit, as behind a balancer.

On loopback only: gateways see each client as one of this machine, who may read their metrics without a key.
"""

import asyncio
import socket
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Self

from streamscribe.gateway.listener import listen

HOST = "127.0.0.1"
READ_BYTES = 2**16
MAX_CONNECTIONS = 4096
CONNECT_TIMEOUT_S = 2.0

Ports = Callable[[], Sequence[int]]


class Front:
    """Takes connections of a bound socket while its context is open, and carries their bytes as they are.

    `ports` gives the ports of the gateways that are fit, at each connection: that with the fewest connections gets it,
    and where it does not answer the next. Who comes while there is none, or beyond `MAX_CONNECTIONS`, is closed at
    once. Of what a side does not read some buffers of `READ_BYTES` are held.
    """

    def __init__(self, sock: socket.socket, ports: Ports) -> None:
        self._socket = sock
        self._ports = ports
        self._at: Counter[int] = Counter()
        self._stack = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            task = group.create_task(self._serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        listen(self._socket)
        self._server = await asyncio.start_server(accept, sock=self._socket, limit=READ_BYTES)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()
        for task in self._tasks:
            task.cancel()
        await self._stack.aclose()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Takes no more connections; those that are there go on."""
        self._server.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            if self._at.total() < MAX_CONNECTIONS:
                for port in sorted(self._ports(), key=self._at.__getitem__):
                    with self._counted(port):
                        if await _carried(reader, writer, port):
                            return
        finally:
            writer.close()

    @contextmanager
    def _counted(self, port: int) -> Iterator[None]:
        self._at[port] += 1
        try:
            yield
        finally:
            self._at[port] -= 1
            self._at += Counter()  # forgets those that have none


async def _carried(reader: StreamReader, writer: StreamWriter, port: int) -> bool:
    """Whether a gateway took the connection; returns when both sides are done, or one has broken off."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            from_gateway, to_gateway = await asyncio.open_connection(HOST, port, limit=READ_BYTES)
    except OSError:  # a time-out is one too
        return False
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pump(reader, to_gateway))
            tasks.create_task(_pump(from_gateway, writer))
    except* OSError:
        writer.transport.abort()
        to_gateway.transport.abort()
    finally:
        to_gateway.close()
    return True


async def _pump(source: StreamReader, sink: StreamWriter) -> None:
    while data := await source.read(READ_BYTES):
        sink.write(data)
        await sink.drain()
    sink.write_eof()
