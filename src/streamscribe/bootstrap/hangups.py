"""SIGHUP, by which an operator lets a server read its settings again."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STANDARD_FDS = (0, 1, 2)


@contextmanager
def at_hangup(call: Callable[[], None], *, without_terminal: Callable[[], None] | None = None) -> Iterator[None]:
    """SIGHUP calls it, on the event loop, instead of ending the process; or `without_terminal`, where its terminal is
    gone.

    One that came before does so now: the command blocks the signal before it imports anything.
    """
    loop = asyncio.get_running_loop()
    screens = [fd for fd in STANDARD_FDS if os.isatty(fd)]

    def hung_up() -> None:
        gone = bool(screens) and not any(map(os.isatty, screens))
        (without_terminal if gone and without_terminal else call)()

    loop.add_signal_handler(signal.SIGHUP, hung_up)
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
