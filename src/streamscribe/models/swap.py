"""A version that is to take over from one that serves: loaded and warmed beside it, or refused."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
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
    TIMEOUT = "timeout"
    UNFIT = "unfit"


class SwapRefused(Exception):
    """The version that served before serves on."""

    def __init__(self, reason: Refusal, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


async def prepare(load: Callable[[], V], flaw: Callable[[V], str | None], timeout_s: float) -> V:
    """A version that is warm and may take over; what blocks runs in threads.

    `flaw` says why a loaded one may not. Raises SwapRefused, with nothing of the new version left, but where it hangs
    and is not ready after `timeout_s`: then what it holds is freed when what it runs has ended.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _prepared(load, flaw)
    except TimeoutError:
        raise SwapRefused(Refusal.TIMEOUT, f"it was not loaded and warm after {timeout_s:g} s") from None


async def _prepared(load: Callable[[], V], flaw: Callable[[V], str | None]) -> V:
    version = await _loaded(load)
    ready = False
    try:
        if found := flaw(version):
            raise SwapRefused(Refusal.UNFIT, found)
        await _warm(version)
        ready = True
        return version
    finally:
        if not ready:
            await asyncio.to_thread(close_version, version)  # which also ends the wait for its warm-up


async def _loaded(load: Callable[[], V]) -> V:
    loading: Future[V] = Future()
    # A thread of its own: one that hangs takes none of the executor's for ever, nor holds up the end of the process.
    threading.Thread(target=_load, args=(load, loading), name="load-version", daemon=True).start()
    try:
        return await asyncio.wrap_future(loading)
    except asyncio.CancelledError:
        loading.cancel()
        raise
    except Exception as error:  # noqa: BLE001 - the engine's edge: of a damaged file it may raise anything
        raise SwapRefused(Refusal.DAMAGED, _told(error)) from None


def _load(load: Callable[[], V], loading: "Future[V]") -> None:
    """Closes what it has loaded if nobody waits for it any more."""
    try:
        version = load()
    except BaseException as error:  # noqa: BLE001 - the thread's edge: nobody may wait for ever
        with suppress(InvalidStateError):
            loading.set_exception(error)
        return
    try:
        loading.set_result(version)
    except InvalidStateError:
        close_version(version)


async def _warm(version: Version) -> None:
    try:
        await asyncio.to_thread(start_and_wait, version)
    except StreamScribeError as error:
        raise SwapRefused(Refusal.WARM_UP, error.message) from None


def _told(error: Exception) -> str:
    """In one line."""
    said = error.message if isinstance(error, StreamScribeError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"
