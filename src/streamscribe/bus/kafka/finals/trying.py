"""Requests that may end whoever tries them: who began each and never ended it is noted where all can see."""

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
    """Who has begun a segment and not ended it: names that outlive a finalizer, by session and segment.

    Forgotten after a while. While they cannot be reached nothing is noted.
    """

    async def begin(self, session_id: SessionId, segment_id: int, by: str, *, fewer_than: int) -> int | None:
        """How many others have begun it and neither ended it nor taken that back; None: it cannot be known.

        Where they are `fewer_than` so many, `by` is noted as one of them.
        """
        ...

    async def take_back(self, session_id: SessionId, segment_id: int, by: str) -> None:
        """Its attempt was none after all. It may be told so later, but no later than its process ends."""
        ...

    async def end(self, session_id: SessionId, segment_id: int) -> None:
        """Forgets the attempts: this one went well. As late as `take_back` at most."""
        ...


class Trying:
    """Who begins a request holds this meanwhile.

    A segment that was in work when two finalizers ended may be as innocent as all others that were, so it is tried
    alone; where a third ends by it, it is tried by nobody again. Only processes that ended count, each once, and the
    third only alone: what a store or a broker failed at ends nobody, is taken back, and blames no segment. What could
    not be noted is tried as if for the first time. Once one has ended it, this finalizer begins nothing more: what
    waits is cancelled, and was not tried.
    """

    def __init__(self, attempts: Attempts, name: str) -> None:
        """`name` is that of this process, and of no other."""
        self._attempts = attempts
        self._name = name
        self._isolation = Isolation()
        self._ended = False

    @asynccontextmanager
    async def one(self, session_id: SessionId, segment_id: int) -> AsyncIterator[None]:
        """Raises Quarantined for what is not tried again.

        Who is cancelled inside has not tried; after any other exception, which ends the finalizer, the attempt counts.
        """
        self._go_on()
        if await self._is_suspect(session_id, segment_id, ENDINGS_TOGETHER):
            async with self._isolation.alone():
                self._go_on()
                if await self._is_suspect(session_id, segment_id, ENDINGS_TOGETHER + 1):
                    raise Quarantined("a segment of the session has stopped its finalizers and is not tried again")
                async with self._noted(session_id, segment_id):
                    yield
        else:
            async with self._noted(session_id, segment_id), self._isolation.together():
                self._go_on()
                yield

    def _go_on(self) -> None:
        if self._ended:
            raise asyncio.CancelledError

    async def _is_suspect(self, session_id: SessionId, segment_id: int, most: int) -> bool:
        """Whether so many have ended at it; else it is noted that this one begins it."""
        begun = asyncio.ensure_future(self._attempts.begin(session_id, segment_id, self._name, fewer_than=most))
        try:
            ended = await _to_its_end(begun)
        except asyncio.CancelledError:
            await self._attempts.take_back(session_id, segment_id, self._name)
            raise
        return ended is not None and ended >= most

    @asynccontextmanager
    async def _noted(self, session_id: SessionId, segment_id: int) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            await self._attempts.take_back(session_id, segment_id, self._name)
            raise
        except Exception:
            self._ended = True
            raise
        await _to_its_end(self._attempts.end(session_id, segment_id))


async def _to_its_end(call: Awaitable[_T]) -> _T:
    """Who is cancelled meanwhile waits: of a call that is broken off nobody knows whether it was done."""
    done = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise
