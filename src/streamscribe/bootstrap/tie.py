"""Ties a process to the one that started it: when that is killed, or stands still no more, nobody is left behind.

As a program, `python -ISB tie.py PARENT COMMAND...` becomes `COMMAND`, tied to the process `PARENT` that started it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def tie_to(parent: int) -> None:
    """From now on the kernel kills this process, stopped or in native code, when the thread that started it ends.

    That of a process which has ended already has no child any more: then this one ends at once. Linux only; elsewhere
    nothing is tied.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    tie_to(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is meant
