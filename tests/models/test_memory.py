"""How the C library keeps memory for models, in a process of its own: it is all of a process'."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps by thread")

SCRIPT = """
import ctypes, threading
from streamscribe.models.memory import share_heap, trim
share_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def allocate():
    block = libc.malloc(100_000)
    together.wait()
    libc.free(block)

together = threading.Barrier(4)
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
trim()
libc.malloc_stats()
"""


def heaps(**environment):
    """How many heaps four threads made that allocated side by side."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True)
    return done.stderr.count("Arena ")


def test_threads_share_a_heap():
    assert heaps() == 1


def test_a_choice_of_the_environment_holds():
    assert heaps(MALLOC_ARENA_MAX="3") > 1
