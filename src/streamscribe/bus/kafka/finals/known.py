"""Answers to requests that come again: a worker that takes a session over asks what the one before it has asked."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId
from streamscribe.wire.final_requests import FinalHeard, FinalRequest

MAX_KNOWN = 1024
"""Answers that are kept, the newest."""

Answer = FinalHeard | StreamScribeError
_Key = tuple[SessionId, int, str]


class Known:
    """Equal requests for a segment, by equal fingerprints, are heard once.

    Who comes while one is heard waits for its answer; who comes later gets what is kept of the newest, unless nothing
    of the session may be. Errors are not kept.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, FinalHeard] = OrderedDict()
        self._heard_now: dict[_Key, asyncio.Future[Answer]] = {}
        self.repeated = 0
        """Requests that were not heard again."""

    async def answer(self, asked: FinalRequest, hear: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer, by `hear` where there is none. Raises what that raises; whoever waits meanwhile hears itself."""
        key = (asked.session_id, asked.segment_id, asked.fingerprint)
        while True:
            if (kept := self._kept.get(key)) is not None:
                self.repeated += 1
                return kept
            if (heard_now := self._heard_now.get(key)) is None:
                return await self._lead(key, asked, hear)
            await asyncio.wait([heard_now])
            if not heard_now.cancelled():
                self.repeated += 1
                return heard_now.result()

    async def _lead(self, key: _Key, asked: FinalRequest, hear: Callable[[], Awaitable[Answer]]) -> Answer:
        told = self._heard_now[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await hear()
            told.set_result(answer)
        finally:
            del self._heard_now[key]
            told.cancel()
        if asked.store and not isinstance(answer, StreamScribeError):
            self._kept[key] = answer
            if len(self._kept) > MAX_KNOWN:
                self._kept.popitem(last=False)
        return answer
