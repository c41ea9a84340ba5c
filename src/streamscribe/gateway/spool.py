"""A file that comes in pieces, kept on disk until it is whole; and how many may be at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from streamscribe.core.admission import SessionQuota
from streamscribe.core.errors import Overloaded, TooLarge
from streamscribe.core.ids import TenantId
from streamscribe.observe.logs import get_logger

_log = get_logger(__name__)

DISK_RETRY_S = 30.0
"""When a client may come back whose file found no room on the disk."""
BUSY_RETRY_S = 5.0
"""When a client may come back that found no place for its file."""


class FilePlaces:
    """Files uploaded or recognised at once, by whatever protocol: `max_files`, of one tenant at most half of them."""

    def __init__(self, max_files: int) -> None:
        self._quota = SessionQuota(max_files)
        self._share = max(1, max_files // 2)

    def take(self, tenant_id: TenantId) -> None:
        """Takes a place, to be given back by `release`. Raises Overloaded or QuotaExceeded."""
        if full := self._quota.admit(tenant_id, self._share):
            raise type(full)("too many files at once", retry_after_s=BUSY_RETRY_S)

    def release(self, tenant_id: TenantId) -> None:
        """Gives a place back."""
        self._quota.release(tenant_id)


class Spool:
    """A private temporary file of at most `max_bytes`; gone after `close`. Writes do not block the event loop.

    A disk that is full, or fails, raises Overloaded: the file's client is told, and no other notices.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        with _disk_trouble_told():  # unbuffered, so that nothing is left to be written when it is closed
            self._file = NamedTemporaryFile(prefix="streamscribe-", delete=False, buffering=0)  # noqa: SIM115
        self.path = Path(self._file.name)

    async def write(self, data: bytes) -> None:
        """Appends; raises TooLarge beyond the bound."""
        self._size_bytes += len(data)
        if self._size_bytes > self._max_bytes:
            raise TooLarge(f"a file may have {self._max_bytes} bytes")
        with _disk_trouble_told():
            await asyncio.to_thread(self._write_all, data)

    async def finish(self) -> Path:
        """The whole file's path."""
        with _disk_trouble_told():
            await asyncio.to_thread(self._file.close)
        return self.path

    def close(self) -> None:
        """Removes the file."""
        with suppress(OSError):
            self._file.close()
        with suppress(FileNotFoundError):
            self.path.unlink()

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:  # a disk that fills up takes a part first, and fails at the next
            rest = rest[self._file.write(rest) :]


@contextmanager
def _disk_trouble_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _log.error("a file that came in cannot be kept on disk", reason=error.strerror)
        raise Overloaded("there is no room to keep the file", retry_after_s=DISK_RETRY_S) from None
