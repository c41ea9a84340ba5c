"""Files that are read whole, or told at once why not. Knows nothing of the rest."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading; never waits for a writer: a pipe, a device or a socket is no file.

    Raises OSError whose `strerror` says what is wrong.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - given away
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is no regular file")
    return file


def read_small(path: Path, max_bytes: int, *, private: bool = False) -> bytes:
    """What a file that somebody names holds, at most `max_bytes`; with `private` only its owner may be able to read it.

    Raises OSError as `open_regular` does.
    """
    with open_regular(path) as file:
        if private and os.fstat(file.fileno()).st_mode & 0o077:
            raise PermissionError(errno.EPERM, "must be readable by its owner only (chmod 600)")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"is larger than {max_bytes} bytes")
    return content
