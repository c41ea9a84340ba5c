"""Who ends a process whose event loop stands still."""

import asyncio
import threading
import time

from streamscribe.bootstrap.cluster.loop_watch import loop_watch


async def test_a_loop_that_stands_still_ends_the_process_and_says_where_it_stands(capfd) -> None:
    ended = threading.Event()
    with loop_watch(0.2, ended.set, every_s=0.05):
        until = time.monotonic() + 20
        while not ended.is_set() and time.monotonic() < until:
            time.sleep(0.01)
    assert ended.is_set()
    assert "test_loop_watch.py" in "".join(capfd.readouterr())


async def test_a_loop_that_turns_ends_nothing_however_long_it_takes_for_each_turn() -> None:
    ended = threading.Event()
    with loop_watch(5, ended.set, every_s=0.01):
        for _ in range(20):
            time.sleep(0.02)
            await asyncio.sleep(0)
    assert not ended.is_set()
