"""Answers to requests that come again: a worker that takes a session over asks what the one before it has asked."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import NamedTuple, Protocol

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.wire.final_requests import FinalHeard, FinalRequest

MAX_KNOWN = 1024
"""Answers that are kept, the newest."""
KEEP_S = 60.0
"""How long they are kept: whoever takes a session over asks again within seconds."""

Answer = FinalHeard | StreamScribeError
_Key = tuple[SessionId, int, str]


class Purges(Protocol):
    """Who knows what was purged (`cache.purges.Purges`)."""

    def begin(self) -> int:
        """When work begins."""
        ...

    def keep(self, tenant: TenantId | None, began: int, put: Callable[[], object]) -> bool:
        """Whether `put`, which is called then, did; not where the tenant's things were purged since the work began."""
        ...


class _Kept(NamedTuple):
    heard: FinalHeard
    tenant: TenantId | None
    began: int
    until_s: float


class _HeardNow(NamedTuple):
    told: asyncio.Future[Answer]
    patience: asyncio.Timeout
    """Of whoever waits longest for it."""


class Known:
    """Equal requests for a segment, by equal fingerprints, are heard once.

    Who comes while one is heard waits for its answer; who comes later gets what is kept of the newest, unless nothing
    of the session may be, or it was purged. Errors are not kept.
    """

    def __init__(self, purges: Purges, clock: Callable[[], float] = monotonic) -> None:
        self._purges = purges
        self._clock = clock
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._heard_now: dict[_Key, _HeardNow] = {}
        self.repeated = 0
        """Requests that were not heard again."""

    async def answer(self, asked: FinalRequest, hear: Callable[[], Awaitable[Answer]], until_s: float) -> Answer | None:
        """The answer, by `hear` where there is none. Raises what that raises; whoever waits meanwhile hears itself.

        None: it has taken until `until_s`, by the loop's clock, and was given up, as nobody waits for longer.
        """
        key = (asked.session_id, asked.segment_id, asked.fingerprint)
        while True:
            kept = self._kept.get(key)
            if kept is not None and kept.until_s > self._clock() and self._fresh(kept):
                self.repeated += 1
                return kept.heard
            if (heard_now := self._heard_now.get(key)) is None:
                return await self._lead(key, asked, hear, until_s)
            told, patience = heard_now
            if not patience.expired():
                patience.reschedule(max(until_s, patience.when() or until_s))
            await asyncio.wait([told])
            if not told.cancelled():
                self.repeated += 1
                return told.result()

    def sweep(self) -> None:
        """Lets go of what is old, and of what was purged."""
        now_s = self._clock()
        while self._kept and next(iter(self._kept.values())).until_s <= now_s:
            self._kept.popitem(last=False)
        for key in [key for key, kept in self._kept.items() if not self._fresh(kept)]:
            del self._kept[key]

    def _fresh(self, kept: _Kept) -> bool:
        return self._purges.keep(kept.tenant, kept.began, lambda: True)

    async def _lead(
        self, key: _Key, asked: FinalRequest, hear: Callable[[], Awaitable[Answer]], until_s: float
    ) -> Answer | None:
        told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        patience = asyncio.timeout_at(until_s)
        self._heard_now[key] = _HeardNow(told, patience)
        began = self._purges.begin()
        try:
            async with patience:
                answer = await hear()
            told.set_result(answer)
        except TimeoutError:
            if patience.expired():
                return None
            raise
        finally:
            del self._heard_now[key]
            told.cancel()
        if asked.store and not isinstance(answer, StreamScribeError):
            self._kept[key] = _Kept(answer, asked.tenant_id, began, self._clock() + KEEP_S)
            self._kept.move_to_end(key)  # a stale answer has kept its place
            if len(self._kept) > MAX_KNOWN:
                self._kept.popitem(last=False)
        return answer
