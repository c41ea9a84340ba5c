"""SIGHUP, by which an operator lets a server read its settings again."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def at_hangup(call: Callable[[], None]) -> Iterator[None]:
    """SIGHUP calls it, on the event loop, instead of ending the process.

    One that came before does so now: the command blocks the signal before it imports anything.
    """
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, call)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


@contextmanager
def hangups() -> Iterator[asyncio.Event]:
    """An event that SIGHUP sets: one that comes while models load waits for them."""
    asked = asyncio.Event()
    with at_hangup(asked.set):
        yield asked
