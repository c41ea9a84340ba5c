"""Requests at a stage, so many at a time, and what became of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter, process_time

from streamscribe.bench.replay_workload import Clip, Workload
from streamscribe.core.ids import TenantId
from streamscribe.models.ports import SegmentRequest

Recognise = Callable[[SegmentRequest], Awaitable[str]]
"""The text of a segment."""

TENANT = TenantId("replay")


@dataclass(frozen=True, slots=True)
class Pass:
    """The texts in order of arrival, how long each took, and all of them together, in time and in processor time."""

    texts: tuple[str, ...]
    latencies_s: tuple[float, ...]
    elapsed_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Requests answered in a second."""
        return len(self.texts) / self.elapsed_s

    def percentile_ms(self, percent: int) -> float:
        """Of the latencies."""
        return 1000 * percentile(self.latencies_s, percent)


def percentile(values: Sequence[float], percent: int) -> float:
    """By linear interpolation between neighbours."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def requests_of(workload: Workload) -> list[SegmentRequest]:
    """A request for each arrival."""
    return [request_of(workload.clips[clip]) for clip in workload.order]


def request_of(clip: Clip) -> SegmentRequest:
    """As a file's segment is asked for."""
    return SegmentRequest(clip.samples, clip.language, tenant_id=TENANT)


async def drive(recognise: Recognise, requests: Sequence[SegmentRequest], *, at_once: int) -> Pass:
    """Asks in order; the next one as soon as fewer than `at_once` are without an answer."""
    texts = [""] * len(requests)
    latencies_s = [0.0] * len(requests)
    arriving = iter(enumerate(requests))

    async def ask() -> None:
        for number, request in arriving:
            asked_s = perf_counter()
            texts[number] = await recognise(request)
            latencies_s[number] = perf_counter() - asked_s

    began_s, cpu_s = perf_counter(), process_time()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, len(requests))):
            tasks.create_task(ask())
    return Pass(tuple(texts), tuple(latencies_s), perf_counter() - began_s, process_time() - cpu_s)
