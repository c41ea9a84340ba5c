"""The ports that clients come to, of a cluster on one machine and of a server."""

import asyncio
import socket
from contextlib import AbstractAsyncContextManager, closing

import pytest
from starlette.applications import Starlette

from streamscribe.bootstrap.cluster.front import Front
from streamscribe.gateway.listener import Address, Binding, Listener, bound
from streamscribe.settings import GatewaySettings, LimitSettings

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def a_server(sock: socket.socket) -> Listener:
    return Listener([Binding(Starlette(), sock)], GatewaySettings(), LimitSettings())


@pytest.mark.parametrize("fronted", [True, False], ids=["of a cluster", "of a server"])
async def test_a_port_is_free_again_at_once_though_clients_were_hung_up_on_there(fronted: bool) -> None:
    with bound(Address("127.0.0.1", 0, "gateway.port"), Address("127.0.0.1", 0, "gateway.port")) as (behind, before):
        port, behind_it = (taken.getsockname()[1] for taken in (before, behind))
        async with a_server(behind):
            ours: AbstractAsyncContextManager[object] = (
                Front(before, lambda: [behind_it]) if fronted else a_server(before)
            )
            async with ours:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(REQUEST)
                await reader.readuntil(b"\r\n\r\n")
            await reader.read()  # to its end: it was the other side that closed, which the kernel remembers there
            with closing(writer):
                writer.write_eof()
    with bound(Address("127.0.0.1", port, "gateway.port")):
        pass
