"""A version that is to take over from one that serves: loaded and warmed beside it, or refused."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from streamscribe.core.errors import StreamScribeError
from streamscribe.models.pool import close_version, start_and_wait
from streamscribe.models.slot import Version

V = TypeVar("V", bound=Version)


class Refusal(StrEnum):
    """Why a version was not taken."""

    MEMORY = "memory"
    DAMAGED = "damaged"
    WARM_UP = "warm_up"
    UNFIT = "unfit"


class SwapRefused(Exception):
    """The version that served before serves on."""

    def __init__(self, reason: Refusal, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


async def prepare(load: Callable[[], V], flaw: Callable[[V], str | None]) -> V:
    """A version that is warm and may take over; what blocks runs in threads.

    `flaw` says why a loaded one may not. Raises SwapRefused, with nothing of the new version left.
    """
    try:
        version = await asyncio.to_thread(load)
    except Exception as error:  # noqa: BLE001 - the engine's edge: of a damaged file it may raise anything
        raise SwapRefused(Refusal.DAMAGED, _told(error)) from None
    ready = False
    try:
        if found := flaw(version):
            raise SwapRefused(Refusal.UNFIT, found)
        await _warm(version)
        ready = True
        return version
    finally:
        if not ready:
            await asyncio.to_thread(close_version, version)


async def _warm(version: Version) -> None:
    try:
        await asyncio.to_thread(start_and_wait, version)
    except StreamScribeError as error:
        raise SwapRefused(Refusal.WARM_UP, error.message) from None


def _told(error: Exception) -> str:
    """In one line."""
    said = error.message if isinstance(error, StreamScribeError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"
