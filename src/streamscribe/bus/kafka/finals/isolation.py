"""Work that is done together, and work that is done alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Isolation:
    """Any number are inside together, or one alone. Whoever waits to be alone is passed by nobody who comes later."""

    def __init__(self) -> None:
        self._together = 0
        self._alone = False
        self._waiting = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Inside with others."""
        while self._alone or self._waiting:
            await self._change()
        self._together += 1
        try:
            yield
        finally:
            self._together -= 1
            self._changed.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Inside while nobody else is."""
        self._waiting += 1
        try:
            while self._alone or self._together:
                await self._change()
            self._alone = True
        finally:
            self._waiting -= 1
            self._changed.set()
        try:
            yield
        finally:
            self._alone = False
            self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
