"""Which processes run, for tests of those that start and end them."""

from contextlib import suppress
from pathlib import Path


def running(argument: str) -> bool:
    """Whether any process was started with this argument."""
    for commands in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ends meanwhile
            if argument.encode() in commands.read_bytes().split(b"\0"):
                return True
    return False
