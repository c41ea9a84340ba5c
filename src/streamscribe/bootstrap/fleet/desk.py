"""What is asked of all worker processes as if they were one: what they keep, and their metrics."""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from streamscribe.bootstrap.desk import Asked, not_all
from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bootstrap.fleet.process import WorkerProcess
from streamscribe.bootstrap.fleet.supervisor import Supervisor
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.observe.instruments import LAG_P95_MS, UTILISATION
from streamscribe.observe.load import EVENT_LOOP
from streamscribe.observe.metrics import Metrics

METRICS_TIMEOUT_S = 5.0
PURGE_TIMEOUT_S = 60.0

_text = msgspec.json.Decoder(str)


async def ask_all(supervisor: Supervisor, what: Asked, tenant: TenantId | None) -> Sequence[msgspec.Raw]:
    """The answers of all workers that are ready; where one is missing the others were asked all the same.

    Raises CacheUnavailable where one is missing.
    """
    workers = [worker for _, worker in supervisor.workers]
    asked = (worker.ask(what, tenant=tenant, timeout_s=PURGE_TIMEOUT_S) for worker in workers)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    for error in failed:
        if not isinstance(error, StreamScribeError):
            raise error
    if failed or not workers:
        raise not_all(len(failed), len(workers))
    return [answer for answer in answers if isinstance(answer, msgspec.Raw)]


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
