"""A TCP proxy in front of a server whose connections can be cut: the network of a page that loses it."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Forwards connections of a free loopback port to `target` while `up`."""

    def __init__(self, target: str) -> None:
        address = urlsplit(target)
        self._host, self._port = address.hostname, address.port
        self._up = True
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Resets all connections and takes no more."""
        self._up = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """Takes connections again."""
        self._up = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._up:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        both = {writer, far_writer}
        self._writers |= both
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            self._writers -= both


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
