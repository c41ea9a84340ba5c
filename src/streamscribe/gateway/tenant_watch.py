"""Keeps the keys of a running gateway those of its tenants file."""

import asyncio
from typing import Protocol

from streamscribe.observe.logs import get_logger

_log = get_logger(__name__)

CHECK_EVERY_S = 1.0


class Refreshable(Protocol):
    """A tenant store whose source may change."""

    def refresh(self) -> bool:
        """Reads the source again if it changed; blocks; raises ValueError, with the place, where it cannot be used."""
        ...


async def watch_tenants(store: Refreshable) -> None:
    """Checks once a second, off the event loop, until cancelled; a file that cannot be used changes nothing, and what
    is wrong with it is in the log, once."""
    complaint = ""
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        try:
            if await asyncio.to_thread(store.refresh):
                complaint = ""
                _log.info("tenants file read again")
        except ValueError as error:
            if str(error) != complaint:
                complaint = str(error)
                _log.warning("the tenants file cannot be used: the keys read before stay valid", detail=complaint)
