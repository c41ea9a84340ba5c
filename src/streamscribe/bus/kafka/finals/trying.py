"""Requests that may end whoever tries them: how often each was begun and never ended is counted where all can see."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from streamscribe.bus.kafka.finals.isolation import Isolation
from streamscribe.core.errors import Quarantined
from streamscribe.core.ids import SessionId

_T = TypeVar("_T")

ENDINGS_TOGETHER = 2
"""A segment that was there when so many finalizers ended is tried alone: who ends then, ends by it."""


class Attempts(Protocol):
    """Counters that outlive a finalizer, by session and segment; forgotten after a while.

    While they cannot be reached, nothing is counted.
    """

    async def begin(self, session_id: SessionId, segment_id: int) -> int | None:
        """Counts an attempt, and gives how many were before it that nobody ended or took back; None: not counted."""
        ...

    async def take_back(self, session_id: SessionId, segment_id: int) -> None:
        """An attempt that was counted was not one after all."""
        ...

    async def end(self, session_id: SessionId, segment_id: int) -> None:
        """Forgets the attempts: this one went well."""
        ...


class Trying:
    """Who begins a request holds this meanwhile.

    A segment that was in work when two finalizers ended may be as innocent as all others that were, so it is tried
    alone; where a third ends by it, it is tried by nobody again. What could not be counted is tried as if for the first
    time.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._isolation = Isolation()

    @asynccontextmanager
    async def one(self, session_id: SessionId, segment_id: int) -> AsyncIterator[None]:
        """Raises Quarantined for what is not tried again.

        Who is cancelled inside has not tried; after any other exception, which ends the finalizer, the attempt counts.
        """
        before = await self._begin(session_id, segment_id)
        if before is not None and before > ENDINGS_TOGETHER:
            raise Quarantined("a segment of the session has stopped its finalizers and is not tried again")
        if before == ENDINGS_TOGETHER:
            await _to_its_end(self._attempts.take_back(session_id, segment_id))  # only its own turn counts
            async with self._isolation.alone():
                before = await self._begin(session_id, segment_id)
                async with self._counted(session_id, segment_id, before):
                    yield
        else:
            async with self._counted(session_id, segment_id, before), self._isolation.together():
                yield

    async def _begin(self, session_id: SessionId, segment_id: int) -> int | None:
        begun = asyncio.ensure_future(self._attempts.begin(session_id, segment_id))
        try:
            return await _to_its_end(begun)
        except asyncio.CancelledError:
            await self._take_back(session_id, segment_id, await begun)
            raise

    @asynccontextmanager
    async def _counted(self, session_id: SessionId, segment_id: int, before: int | None) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            await self._take_back(session_id, segment_id, before)
            raise
        await _to_its_end(self._attempts.end(session_id, segment_id))

    async def _take_back(self, session_id: SessionId, segment_id: int, before: int | None) -> None:
        """What was not counted would be taken from those that ended finalizers."""
        if before is not None:
            await self._attempts.take_back(session_id, segment_id)


async def _to_its_end(call: Awaitable[_T]) -> _T:
    """Who is cancelled meanwhile waits: of a call that is broken off nobody knows whether it was done."""
    done = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise
