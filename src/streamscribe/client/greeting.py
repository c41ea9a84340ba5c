"""How a session at a server begins: who is there says so first."""

import asyncio

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from streamscribe.client.errors import ConnectionLost, ServerError
from streamscribe.wire.native_server import ConnectedMessage, ErrorMessage, decode_server_message

GREETING_TIMEOUT_S = 3.0
"""A server of ours greets as soon as it has taken the connection; others wait for us to speak first."""


async def greeting(socket: ClientConnection, patience_s: float) -> ConnectedMessage:
    """The server's first message. Raises TimeoutError where none comes."""
    try:
        async with asyncio.timeout(patience_s):
            first = decode_server_message(await socket.recv())
    except (ConnectionClosed, ValueError) as error:
        raise ConnectionLost("no greeting from the server") from error
    if isinstance(first, ErrorMessage):
        raise ServerError(first)
    if not isinstance(first, ConnectedMessage):
        raise ConnectionLost("the server does not speak this protocol")
    return first
