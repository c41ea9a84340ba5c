"""Ends a process whose event loop stands still: whatever else looks after it runs on that loop."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from streamscribe.core.restarts import Patience
from streamscribe.observe.logs import get_logger

LOOK_EVERY_S = 1.0

_log = get_logger(__name__)


@contextmanager
def loop_watch(
    after_s: float, end: Callable[[], None] = lambda: os._exit(1), every_s: float = LOOK_EVERY_S
) -> Iterator[None]:
    """Calls `end`, in a thread, when the running loop has not turned for so long; logs where it stands.

    Time in which the whole process stood still, for whatever reason, does not count.
    """
    loop, watched = asyncio.get_running_loop(), threading.get_ident()
    turned, over = threading.Event(), threading.Event()

    def watch() -> None:
        patience = Patience(every_s, monotonic())
        while not over.wait(every_s):
            silent_s = patience.look(alive=turned.is_set(), now=monotonic())
            if silent_s > after_s:
                frame = sys._current_frames()[watched]
                where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_qualname}"
                _log.error("the event loop stands still: this process ends", elapsed_s=round(silent_s, 1), detail=where)
                end()
                return
            turned.clear()
            with suppress(RuntimeError):  # the loop is closed: the process ends anyway
                loop.call_soon_threadsafe(turned.set)

    thread = threading.Thread(target=watch, name="loop-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
