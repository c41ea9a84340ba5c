"""What a process of a cluster says when it has begun to work."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class Working:
    """Where a worker or finalizer tells how it is, and how long it took to be ready."""

    url: str
    ready_s: float
    warmup_s: dict[str, float]


async def announce_in_group(
    joined: asyncio.Event,
    announce: Callable[[Working], None],
    *,
    url: str,
    started_at: float,
    warmup_s: Mapping[str, float],
) -> None:
    """Says it once the group has given it its share; before that it can do nothing for anybody."""
    await joined.wait()
    announce(Working(url, monotonic() - started_at, dict(warmup_s)))
