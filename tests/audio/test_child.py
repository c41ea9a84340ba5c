"""A child is started and ended whatever the rest of the process does."""

import asyncio
import os
import subprocess
import sys

import pytest

from streamscribe.audio.child import Child
from tests.audio.processes import running

SPAWNING_BESIDE_MATRICES = """
import asyncio, sys, threading
import numpy, uvloop
from streamscribe.audio.child import Child
from tests.audio.processes import running

def multiply():
    left, right = numpy.ones((80, 201), numpy.float32), numpy.ones((201, 3000), numpy.float32)
    while not over.is_set():
        left @ right

async def spawn():
    for _ in range(20):
        child = await Child.start((sys.executable, "-S", "-c", ""), {})
        await child.end(finished=True)

over = threading.Event()
thread = threading.Thread(target=multiply)
thread.start()
uvloop.run(spawn())
over.set()
thread.join()
"""


def test_starting_children_beside_a_model_that_computes_does_not_stop_the_process() -> None:
    """A fork would: OpenBLAS's handler of forks joins threads that the multiplication waits for."""
    subprocess.run([sys.executable, "-c", SPAWNING_BESIDE_MATRICES], check=True, timeout=50)


async def test_a_child_gets_its_line_and_gives_its_bytes() -> None:
    child = await Child.start(("cat",), {})
    child.give(b"line\n")
    assert await child.stdout.read() == b"line\n"
    await child.end(finished=True)
    assert not child.alive


async def test_a_child_that_has_died_takes_its_line_in_silence() -> None:
    child = await Child.start(("true",), {})
    assert await child.stdout.read() == b""
    child.give(b"line\n")
    await child.end(finished=False)


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    long = f"3600.{os.getpid()}"
    starting = asyncio.create_task(Child.start(("sleep", long), {}))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.get_running_loop().shutdown_default_executor()  # before which the start itself is not over
    while running(long):
        await asyncio.sleep(0.01)
