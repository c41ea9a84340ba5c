"""Work that may not be dropped waits where drafts are skipped."""

import asyncio
from collections.abc import Hashable
from typing import TypeVar

from streamscribe.core.batching import Priority
from streamscribe.core.errors import Overloaded
from streamscribe.models.stage import Stage

Req = TypeVar("Req")
Res = TypeVar("Res")

RETRY_S = 0.1
"""A session that waits reads no more audio, so what waits for a retry is bounded by the number of sessions."""


async def submit_patiently(
    stage: Stage[Req, Res],
    request: Req,
    *,
    priority: Priority,
    audio_s: float,
    group: Hashable = None,
    exclusive: Hashable = None,
) -> Res:
    """`stage.submit`, again and again while the stage is overloaded."""
    while True:
        try:
            return await stage.submit(request, priority=priority, audio_s=audio_s, group=group, exclusive=exclusive)
        except Overloaded:
            await asyncio.sleep(RETRY_S)
