"""Small files that somebody names: read whole, or told at once why not. Knows nothing of the rest."""

import errno
import os
import stat
from pathlib import Path


def read_small(path: Path, max_bytes: int, *, private: bool = False) -> bytes:
    """What the file holds, at most `max_bytes`; with `private` only its owner may be able to read it.

    Never waits for a writer: a pipe, a device or a socket is no file. Raises OSError whose `strerror` says what is
    wrong.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is no regular file")
        if private and mode & 0o077:
            raise PermissionError(errno.EPERM, "must be readable by its owner only (chmod 600)")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"is larger than {max_bytes} bytes")
    return content
