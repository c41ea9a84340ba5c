"""Lets a FunASR client model talk over a real socket."""

import asyncio
from collections.abc import Sequence

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from tests.fakes.funasr_client import Client


async def converse(client: Client, url: str, *, headers: Sequence[tuple[str, str]] = ()) -> None:
    """Sends what the client sends, reads beside it, and closes when the client would."""
    subprotocols = None if client.subprotocol is None else [Subprotocol(client.subprotocol)]
    async with connect(url, subprotocols=subprotocols, compression=None, additional_headers=headers) as socket:
        progress = asyncio.Event()

        async def read() -> None:
            while not client.done:
                client.receive(str(await socket.recv()))
                progress.set()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            for frame in client.outgoing():
                if frame is None:
                    await progress.wait()
                    progress.clear()
                else:
                    await socket.send(frame)
