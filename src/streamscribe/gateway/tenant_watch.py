"""Keeps the keys of a running gateway those of its tenants file."""

import asyncio
from typing import Protocol

from streamscribe.observe.logs import get_logger

_log = get_logger(__name__)

CHECK_EVERY_S = 1.0


class Refreshable(Protocol):
    """A tenant store whose source may change."""

    def refresh(self) -> bool:
        """Reads the source again if it changed; blocks; raises ValueError where it cannot be used."""
        ...


async def watch_tenants(store: Refreshable) -> None:
    """Checks once a second, off the event loop, until cancelled; a file that cannot be used changes nothing."""
    complained = False
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        try:
            if await asyncio.to_thread(store.refresh):
                complained = False
                _log.info("tenants file read again")
        except ValueError:
            if not complained:
                _log.warning("the tenants file cannot be used: the keys read before stay valid")
            complained = True
