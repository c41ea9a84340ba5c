"""A network that can be cut: TCP connections of this machine, of which those of one process stop, and go on later."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

READ_BYTES = 65_536


class CutProxy:
    """Forwards its `port` to another of this machine, `target`, in a thread of its own.

    While a cut lasts nothing passes on connections whose first bytes have `whose` in them, nor do they break: what was
    on its way arrives afterwards, as it does where packets were lost and are sent again.
    """

    def __init__(self, whose: bytes) -> None:
        self.target = 0
        self._whose = whose
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._all_flow = asyncio.Event()
        self._all_flow.set()
        self._running: set[asyncio.Task[None]] = set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing of theirs passes."""
        self._loop.call_soon_threadsafe(self._flows.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._flows.set)

    def close(self) -> None:
        """Breaks all that there is."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        writers = [writer]
        with suppress(OSError, ExceptionGroup, asyncio.CancelledError):
            first = await reader.read(READ_BYTES)
            may_pass = self._flows if self._whose in first else self._all_flow
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(far_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(first, reader, far_writer, may_pass))
                both.create_task(_carry(b"", far_reader, writer, may_pass))
        for one in writers:
            one.transport.abort()


async def _carry(data: bytes, reader: StreamReader, writer: StreamWriter, may_pass: asyncio.Event) -> None:
    data = data or await reader.read(READ_BYTES)
    while data:
        await may_pass.wait()
        writer.write(data)
        await writer.drain()
        data = await reader.read(READ_BYTES)
    await may_pass.wait()
    raise ConnectionResetError  # ends both directions
