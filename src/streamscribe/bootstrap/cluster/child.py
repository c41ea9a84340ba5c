"""A process of a small cluster on this machine: started, heard line by line, ended."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from streamscribe.bootstrap import tie

MAX_LINE_BYTES = 2**14
"""A longer line of a log is cut into several."""

LAST_WORDS_S = 1.0
"""How long is read on when it has ended."""

Hear = Callable[[str], None]


class Child:
    """A running process in a session of its own, so that Ctrl-C reaches only who started it. It dies with that one.

    `last_line` is the last that it wrote to standard error. Made with `start`.
    """

    def __init__(self, process: Process, hear_error: Hear) -> None:
        self.last_line = ""
        self._process = process
        self._hear_error = hear_error

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        hear_error: Hear,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Self:
        """Starts it, in `folder`. `hear_error` gets each line of standard error while `run` runs. Raises OSError."""
        tied = [sys.executable, "-ISB", tie.__file__, str(os.getpid()), *command]
        process = await asyncio.create_subprocess_exec(
            *tied, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, cwd=folder, start_new_session=True
        )
        return cls(process, hear_error)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def run(self, hear: Hear) -> int:
        """Gives each line of standard output to `hear`; its exit code (negative: the signal). Cancelled, kills it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                out, err = self._process.stdout, self._process.stderr
                reading = [tasks.create_task(_read(out, hear)), tasks.create_task(_read(err, self._error))]
                code = await self._process.wait()
                await asyncio.wait(reading, timeout=LAST_WORDS_S)  # a child of its own may hold them open
                for task in reading:
                    task.cancel()
            return code
        finally:
            self.kill()

    def signal(self, number: int) -> None:
        """Sends it a signal, if it is still there."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _error(self, line: str) -> None:
        self.last_line = line
        self._hear_error(line)


async def _read(stream: asyncio.StreamReader | None, hear: Hear) -> None:
    if stream is not None:
        async for line in _lines(stream):
            hear(line)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    rest = b""
    while chunk := await stream.read(MAX_LINE_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) >= MAX_LINE_BYTES:
            whole.append(rest)
            rest = b""
        for line in filter(None, map(bytes.rstrip, whole)):
            yield line.decode(errors="replace")
    if rest.strip():
        yield rest.decode(errors="replace")
