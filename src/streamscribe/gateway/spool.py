"""A file that comes in pieces, kept on disk until it is whole."""

import asyncio
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from streamscribe.core.errors import TooLarge


class Spool:
    """A private temporary file of at most `max_bytes`; gone after `close`. Writes do not block the event loop."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._file = NamedTemporaryFile(prefix="streamscribe-", delete=False)  # noqa: SIM115  closed by close()
        self.path = Path(self._file.name)

    async def write(self, data: bytes) -> None:
        """Appends; raises TooLarge beyond the bound."""
        self._size_bytes += len(data)
        if self._size_bytes > self._max_bytes:
            raise TooLarge(f"a file may have {self._max_bytes} bytes")
        await asyncio.to_thread(self._file.write, data)

    async def finish(self) -> Path:
        """The whole file's path."""
        await asyncio.to_thread(self._file.close)
        return self.path

    def close(self) -> None:
        """Removes the file."""
        self._file.close()
        with suppress(FileNotFoundError):
            self.path.unlink()
