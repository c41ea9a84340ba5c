"""A process that is given one line and answers in bytes, as the event loop sees it.

It is started by `subprocess`, which uses vfork, and not by the loop: uvloop forks, and a fork runs what libraries
registered for it. OpenBLAS waits there, the interpreter locked, for its threads to end; where another thread of ours
multiplies matrices meanwhile, both may wait for ever, and the whole process with them.
"""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Self, cast

LEAVE_S = 1.0


class Child:
    """A process in a session of its own (a terminal's Ctrl-C is for the server), with the given environment only."""

    def __init__(self, process: subprocess.Popen[bytes], stdout: asyncio.StreamReader, pipe: asyncio.BaseTransport):
        self._process = process
        self._pipe = pipe
        self.stdout = stdout

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Starts it, off the event loop; none is left where this is cancelled. Raises OSError."""
        starting = asyncio.create_task(asyncio.to_thread(_popen, command, environment))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_discard_started)
            raise
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        try:
            pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        except BaseException:
            _discard(process)
            raise
        return cls(process, reader, pipe)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def give(self, line: bytes) -> None:
        """Writes its input, which must be small enough for a pipe's buffer, and closes it."""
        stdin = cast(IO[bytes], self._process.stdin)
        with suppress(BrokenPipeError):  # it died: its output ends, and the reader sees it
            stdin.write(line)
        stdin.close()

    async def end(self, *, finished: bool) -> None:
        """Ends it; one that has `finished` may leave by itself."""
        try:
            if finished:
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(self._process.wait, LEAVE_S)
        finally:
            self._pipe.close()
            await asyncio.to_thread(_kill, self._process)


def _popen(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.kill()
    process.wait()


def _discard_started(starting: "asyncio.Task[subprocess.Popen[bytes]]") -> None:
    """Nobody waits for it any more."""
    if not starting.cancelled() and starting.exception() is None:
        _discard(starting.result())


def _discard(process: subprocess.Popen[bytes]) -> None:
    cast(IO[bytes], process.stdout).close()
    _kill(process)
