"""Places and children of the decoder pool, whatever is cancelled or fails meanwhile: none is lost, none is left."""

import asyncio
import errno
import itertools
import os
import subprocess
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from streamscribe.audio import decode as module
from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.audio.decode_protocol import HEADER, Job, Tag
from streamscribe.core.errors import InternalError, Overloaded
from tests.audio.files import make
from tests.audio.processes import running

LIMITS = DecodeLimits(stall_s=600)  # however busy this machine is
JOB = Job("/dev/null", LIMITS, 1)
MANY = 100


class CancelledAt:
    """Awaits a coroutine and cancels it at one of its waits: while that lasts, or, with `over`, just when it is over.

    A task can be cancelled at either moment. `reached`: whether there were so many waits.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], wait: int, *, over: bool) -> None:
        self._coroutine = coroutine
        self._wait = wait
        self._over = over
        self.reached = False

    def __await__(self) -> Generator[Any, None, Any]:
        waits = self._coroutine.__await__()
        try:
            future = next(waits)
            for number in itertools.count():
                cancelled = number == self._wait
                if not cancelled or self._over:
                    yield future
                elif future is not None:
                    future.cancel()
                self.reached |= cancelled
                future = waits.throw(asyncio.CancelledError()) if cancelled else next(waits)
        except StopIteration as done:
            return done.value

    async def outcome(self) -> Any:
        return await self


@pytest.mark.parametrize("over", [False, True], ids=["meanwhile", "just over"])
@pytest.mark.parametrize("spare", [False, True], ids=["", "spare"])
async def test_a_take_that_is_cancelled_ends_with_that_and_keeps_neither_place_nor_child(
    monkeypatch: pytest.MonkeyPatch, spare: bool, over: bool
) -> None:
    argument = f"3600.{os.getpid()}{int(over)}{int(spare)}"
    monkeypatch.setattr(module, "_COMMAND", ("sleep", argument))
    for wait in range(MANY):
        pool = DecoderPool(LIMITS, max_children=1, spare=spare)
        holder = await pool.take(JOB)
        taken = CancelledAt(pool.take(JOB), wait, over=over)
        taking = asyncio.create_task(taken.outcome())
        await asyncio.sleep(0)  # it waits for the place, or was cancelled there
        await pool.release(holder, finished=False)
        await asyncio.wait([taking])
        if taken.reached:
            assert taking.cancelled()
        else:
            await pool.release(taking.result(), finished=False)
        async with asyncio.timeout(20):
            await pool.release(await pool.take(JOB), finished=False)  # the place is free
            await pool.close()
            while running(argument):
                await asyncio.sleep(0.01)
        if not taken.reached:
            break
    assert 3 <= wait < MANY


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE], ids=os.strerror)
async def test_where_there_is_no_room_for_a_process_files_are_refused_and_places_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    path = make(tmp_path, "wav", 1.0)
    pool = DecoderPool(LIMITS, max_children=1)
    await pool.start()
    monkeypatch.setattr(subprocess, "Popen", no_room)
    assert [len(block) async for block in pool.decode(path)] == [32_000]  # by the child that waited
    for _ in range(2):
        with pytest.raises(Overloaded, match=r"^no decoder can be started now$") as refused:
            await anext(pool.decode(path))
        assert refused.value.retry_after_s
    await pool.close()


@pytest.mark.parametrize("command", ["/nowhere", "/"], ids=["not there", "may not be run"])
async def test_where_no_process_can_ever_be_started_it_is_a_defect_and_places_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    path = make(tmp_path, "wav", 1.0)
    pool = DecoderPool(LIMITS, max_children=1)
    await pool.start()
    monkeypatch.setattr(module, "_COMMAND", (command,))
    assert [len(block) async for block in pool.decode(path)] == [32_000]  # by the child that waited
    for _ in range(2):
        with pytest.raises(InternalError, match=f"^{InternalError.default_message}$") as refused:
            await anext(pool.decode(path))
        assert isinstance(refused.value.__cause__, OSError)
    await pool.close()


def test_a_defect_of_the_child_is_told_by_its_kind_and_place() -> None:
    done = subprocess.run(module._COMMAND, input=b"no job\n", capture_output=True, check=True)
    tag, _ = HEADER.unpack(done.stdout[: HEADER.size])
    assert Tag(tag) is Tag.ERROR
    code, told = done.stdout[HEADER.size :].decode().split("\n")
    assert code == "internal"
    kind, _, place = told.partition(" in the decoder ")
    assert kind.isidentifier()
    file, line = place.strip("()").split(":")
    assert file.endswith(".py")
    assert line.isdecimal()
    assert "no job" not in told
