"""The real worker over the real log: workers are killed, and a client has what it would have had (laws 1, 3 and 4)."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Record
from streamscribe.settings import WorkerSettings
from streamscribe.worker.runner import Worker
from tests.contracts.kafka_broker import kafka_broker
from tests.contracts.kafka_rig import KafkaRig, kafka_rig
from tests.worker.kit import TEXT, Recorder
from tests.worker.takeover import View, live, session
from tests.worker.test_takeover import QUICK, models_of, same, talk

PATIENCE_S = 0.01


async def _play(rig: KafkaRig, records: list[Record], deaths: list[int]) -> View:
    """Publishes as there is room; when `deaths` of the session's results were told, the worker is killed."""
    view = View()
    rig.gateway.attach_gateway(view.take)
    publishing = asyncio.ensure_future(_publish(rig, records))
    for told in [*deaths, None]:
        models = models_of(first_pass=True)
        bus = await rig.start_worker()
        running = asyncio.ensure_future(Worker(bus, models, TEXT, WorkerSettings(), Recorder()).run())
        while view.ended is None and (told is None or len(view.messages) < told):
            await asyncio.sleep(PATIENCE_S)
        assert (view.ended is None) == (told is not None), "each death is within the session"
        await rig.kill_worker(bus)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await asyncio.to_thread(models.close)
    await publishing
    return view


async def _publish(rig: KafkaRig, records: list[Record]) -> None:
    for record in records:
        await rig.gateway.publish(record)


async def test_laws_1_3_and_4_a_session_goes_on_with_other_workers_as_if_nothing_had_happened(tmp_path: Path) -> None:
    rng = random.Random(5)
    records = session(talk(rng, 25), SessionOptions(endpoint=QUICK), rng, packet_bytes=3200, controls=3)
    models = models_of(first_pass=True)
    undisturbed = View()
    await live(records, models, undisturbed, None, ahead=20)
    await asyncio.to_thread(models.close)
    with kafka_broker(tmp_path) as broker:
        async with kafka_rig(broker, 2) as rig:
            view = await _play(rig, records, [6, 14])
    same(view, undisturbed)
