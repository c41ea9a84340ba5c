"""How sessions leave a gateway that ends: told to move, then left to another gateway where that can be."""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress

from streamscribe.core.errors import LeaseLost
from streamscribe.core.ids import SessionId
from streamscribe.gateway.live_session import LiveSession
from streamscribe.gateway.register import Register

RETRY_JITTER_MS = (500, 5000)
"""Clients of a draining gateway come back spread over this time, not all at once."""


class Leaving:
    """Who was told to move, and when a session is left to another gateway. For one event loop."""

    def __init__(self, register: Register, *, moves: bool) -> None:
        """`moves` says whether sessions can go on at other gateways."""
        self._register = register
        self._moves = moves
        self._moves_at: dict[SessionId, float] = {}
        self._closes_at: float | None = None
        self.at_once = False
        """Whether who comes now is left to another gateway again."""

    def begin(self, sessions: Iterable[LiveSession], deadline_s: float) -> None:
        """Tells each client to move, and when to come back: spread, so that they do not come all at once.

        A session that can go on at another gateway is left to it then, at the next moment without an open text.
        """
        self._closes_at = asyncio.get_running_loop().time() + deadline_s
        for live in sessions:
            self.came(live)

    def came(self, live: LiveSession) -> None:
        """A session, or its client, is here, perhaps after the others were told. It is left no later for that."""
        if self._closes_at is None or live.over:
            return
        now = asyncio.get_running_loop().time()
        retry_ms = random.randint(*RETRY_JITTER_MS)
        live.go_away(max(0, round((self._closes_at - now) * 1000)), retry_ms)
        if self._moves:
            self._moves_at.setdefault(live.bus_id, now + retry_ms / 1000)

    def heard(self, live: LiveSession) -> None:
        """Its worker has told something: it may have come to a moment without an open text."""
        moves_at = self._moves_at.get(live.bus_id)
        if moves_at is not None and asyncio.get_running_loop().time() >= moves_at and live.at_endpoint:
            self.leave(live)

    async def make_ready(self, within_s: float) -> None:
        """All are about to leave: for those that nobody could find, so much time is spent on changing that."""
        self.at_once = True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._register.make_findable()

    def leave(self, live: LiveSession) -> None:
        """Closes its connection, where it can go on at another gateway; else it stays."""
        if live.movable and self._register.can_be_found(live):
            live.let_go(LeaseLost())

    def forget(self, live: LiveSession) -> None:
        """It is here no more."""
        self._moves_at.pop(live.bus_id, None)
