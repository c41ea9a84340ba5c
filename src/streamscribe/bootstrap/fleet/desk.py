"""What is asked of all workers as if they were one: what they keep, and their metrics."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bootstrap.fleet.process import What, WorkerProcess
from streamscribe.bootstrap.fleet.supervisor import Supervisor
from streamscribe.core.errors import CacheUnavailable, StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.observe.instruments import LAG_P95_MS, UTILISATION
from streamscribe.observe.load import EVENT_LOOP
from streamscribe.observe.metrics import Metrics
from streamscribe.wire.rest_cache import Level, Tier

SHARED_TIER = "redis"
"""Of the tiers of a level, the one that all workers have in common."""

METRICS_TIMEOUT_S = 5.0
PURGE_TIMEOUT_S = 60.0

_levels = msgspec.json.Decoder(tuple[Level, ...] | None)
_purged = msgspec.json.Decoder(dict[str, int] | None)
_text = msgspec.json.Decoder(str)


class FleetDesk:
    """`gateway.rest.cache.CacheDesk` of all workers that are ready."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._turn = asyncio.Lock()

    async def levels(self, *, figures: bool) -> tuple[Level, ...]:
        """What all keep together; without `figures` the names only. Raises CacheUnavailable."""
        async with self._turn:
            told = [_levels.decode(raw) for raw in await self._of_all("facts" if figures else "outline")]
        return merged([one for one in told if one is not None], figures=figures)

    async def purge(self, tenant: TenantId) -> Mapping[str, int]:
        """Forgets all of a tenant in every worker; how many things each level had. Raises CacheUnavailable."""
        async with self._turn:
            told = [_purged.decode(raw) for raw in await self._of_all("purge", tenant)]
        purged: Counter[str] = Counter()
        for one in told:
            purged.update(one or {})
        return dict(purged)

    async def _of_all(self, what: What, tenant: TenantId | None = None) -> Sequence[msgspec.Raw]:
        """All answers; where one is missing the others were asked all the same."""
        workers = [worker for _, worker in self._supervisor.workers]
        asked = (worker.ask(what, tenant=tenant, timeout_s=PURGE_TIMEOUT_S) for worker in workers)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if not isinstance(error, StreamScribeError):
                raise error
        if failed or not workers:
            raise CacheUnavailable
        return [answer for answer in answers if isinstance(answer, msgspec.Raw)]


def merged(told: Sequence[tuple[Level, ...]], *, figures: bool) -> tuple[Level, ...]:
    """The levels of several workers as one's: sums, but for what all have in common."""
    by_name: dict[str, list[Level]] = {}
    for levels in told:
        for level in levels:
            by_name.setdefault(level.level, []).append(level)
    return tuple(_level(same, figures=figures) for same in by_name.values())


def _level(same: Sequence[Level], *, figures: bool) -> Level:
    first = same[0]
    tiers = tuple(
        _tier([tier for level in same for tier in level.tiers if tier.tier == one.tier]) for one in first.tiers
    )
    if not figures:
        return Level(first.level, tuple(Tier(tier.tier) for tier in tiers), first.ttl_s)
    return Level(
        first.level,
        tiers,
        first.ttl_s,
        _sum(level.hits for level in same),
        _sum(level.misses for level in same),
        any(level.resting for level in same) or None,
    )


def _tier(same: Sequence[Tier]) -> Tier:
    first = same[0]
    if first.tier == SHARED_TIER:
        return first
    return Tier(
        first.tier,
        None if first.available is None else all(tier.available for tier in same),
        _sum(tier.entries for tier in same),
        _sum(tier.bytes for tier in same),
        _sum(tier.damaged for tier in same),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class FleetExposition:
    """The exposition of the gateway and of all workers, whose samples have a label `worker`."""

    def __init__(self, gateway: Metrics, supervisor: Supervisor, door: FleetDoor) -> None:
        self._gateway = gateway
        self._supervisor = supervisor
        self._door = door

    async def exposition(self) -> tuple[bytes, str]:
        """The text and its content type; a worker that does not answer is left out."""
        asked = [(number, self._ask(worker)) for number, worker in self._supervisor.workers]
        texts = await asyncio.gather(*(text for _, text in asked))
        told = [(number, text) for (number, _), text in zip(asked, texts, strict=True) if text is not None]
        return await asyncio.to_thread(self._merge, told), CONTENT_TYPE_LATEST

    async def _ask(self, worker: WorkerProcess) -> str | None:
        try:
            return _text.decode(await worker.ask("metrics", timeout_s=METRICS_TIMEOUT_S))
        except StreamScribeError:
            return None

    def _merge(self, told: Sequence[tuple[int, str]]) -> bytes:
        own, _ = self._gateway.render()
        families = {family.name: family for family in text_string_to_metric_families(own.decode())}
        for number, text in told:
            for family in text_string_to_metric_families(text):
                whole = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    labels = {**sample.labels, "worker": str(number)}
                    whole.add_sample(sample.name, labels, sample.value)
        for number in self._door.members:
            self._add_load(families, number)
        return generate_latest(_Collected(families.values()))

    def _add_load(self, families: dict[str, Metric], number: int) -> None:
        """What the gateway knows of a worker's load, as one process tells it of itself."""
        control = self._door.control(number)
        if control is None:
            return
        for name in control.names():
            labels = {"worker": str(number)}
            if name != EVENT_LOOP:
                families[UTILISATION].add_sample(UTILISATION, {"model": name, **labels}, control.utilisation(name))
            families[LAG_P95_MS].add_sample(LAG_P95_MS, {"where": name, **labels}, 1000 * control.lag_p95_s(name))


class _Collected:
    """Families that were collected already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        return self._families
