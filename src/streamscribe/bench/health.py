"""How soon a server says that it is well, asked again and again beside a load."""

import asyncio
from contextlib import suppress
from itertools import cycle
from time import perf_counter
from urllib.parse import urlsplit

ASK_EVERY_S = 0.05
PATHS = ("/healthz", "/readyz")


async def ask_health(http_url: str, answers_s: list[float]) -> None:
    """Asks until cancelled, over one kept connection; `answers_s` gets the seconds each answer took.

    Raises AssertionError for an answer other than 200.
    """
    address = urlsplit(http_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        for path in cycle(PATHS):
            asked = perf_counter()
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.splitlines()[0]:
                raise AssertionError(f"{path} answered {head.splitlines()[0].decode()}")
            await reader.readexactly(_length(head))
            answers_s.append(perf_counter() - asked)
            await asyncio.sleep(ASK_EVERY_S)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _length(head: bytes) -> int:
    for line in head.lower().splitlines():
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    raise AssertionError("an answer without a length")
