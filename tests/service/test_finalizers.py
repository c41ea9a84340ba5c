"""Finalizers as processes of their own behind workers of a cluster: who listens hears no difference, whoever dies."""

import asyncio
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
import yaml

from streamscribe.bench.recordings import recordings
from streamscribe.client.errors import ServerError
from tests.models.tiny import BUNDLED
from tests.service.cluster_kit import Cluster, Role, cluster
from tests.service.kit import RATE, noise_speech, session
from tests.service.test_cluster import Told, heard_by, settled, speaking

pytestmark = pytest.mark.timeout(200)

BY_FINALIZERS = ("--set", "finalizer.enabled=true", "--set", "finalizer.timeout_s=60")
SLOW = ("--set", "model.fake_cost_ms=250")
TINY = ("--profile", "tiny")
PARTITIONS = 2
FAKE_SPEECH = [noise_speech(7100 + number) for number in range(4)]
SILENCE = np.zeros(RATE, np.int16)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(folder, **{"kafka.finalize_partitions": f"{PARTITIONS}"}) as made:
        yield made


@pytest.fixture(scope="module")
def gateway(running: Cluster) -> Role:
    return running.gateway()


def figures(role: Role, name: str) -> dict[str, float]:
    """The samples of a metric by their labels."""
    text = httpx.get(f"{role.url}/metrics", timeout=None).text
    return {found[1] or "": float(found[2]) for found in re.finditer(rf"^{name}({{.*}})? (\S+)$", text, re.MULTILINE)}


def shared(finalizers: Sequence[Role]) -> None:
    """Returns when each has as many partitions as the others."""
    share = PARTITIONS / len(finalizers)
    while any(sum(figures(one, "streamscribe_finalizer_partitions").values()) != share for one in finalizers):
        time.sleep(0.1)


async def let_in(gateway: Role) -> None:
    """Returns when the gateway knows of a worker."""
    while True:
        try:
            await session(gateway.websocket, [])
            return
        except ServerError:
            await asyncio.sleep(0.2)


async def all_speak(gateway: Role, speech: Sequence[bytes]) -> list[Told]:
    return await asyncio.gather(*(speaking(gateway, pcm) for pcm in speech))


async def test_whichever_process_ends_and_however_each_final_is_told_once_and_as_ever(
    running: Cluster, gateway: Role
) -> None:
    workers = [running.worker(*BY_FINALIZERS) for _ in range(2)]
    finalizers = [running.finalizer(*SLOW) for _ in range(2)]
    await asyncio.to_thread(settled, workers)
    await asyncio.to_thread(shared, finalizers)
    await let_in(gateway)
    alone = await heard_by(gateway, FAKE_SPEECH)
    assert all(len(told) >= 3 for told in alone)

    talking = asyncio.ensure_future(all_speak(gateway, FAKE_SPEECH))
    await asyncio.sleep(1.2)
    finalizers.pop(0).kill()
    assert await talking == alone

    finalizers.append(await asyncio.to_thread(running.finalizer, *SLOW))
    await asyncio.to_thread(shared, finalizers)
    talking = asyncio.ensure_future(all_speak(gateway, FAKE_SPEECH))
    await asyncio.sleep(1.2)
    assert await finalizers.pop(0).stop() == 0
    assert await talking == alone

    talking = asyncio.ensure_future(all_speak(gateway, FAKE_SPEECH))
    await asyncio.sleep(1.2)
    workers.pop(0).kill()
    assert await talking == alone
    for role in (*workers, *finalizers):
        assert await role.stop() == 0


async def test_with_real_models_the_texts_are_those_of_a_worker_that_has_them_all(
    running: Cluster, gateway: Role
) -> None:
    spoken = [np.concatenate([SILENCE, one.samples, SILENCE]).tobytes() for one in recordings("paused")][:4]
    worker = running.worker(*TINY)
    await asyncio.to_thread(settled, [worker])
    await let_in(gateway)
    alone = await heard_by(gateway, spoken)
    assert all(any(pass_ == 2 and text for _, pass_, text, *_ in told) for told in alone)
    assert await worker.stop() == 0

    worker = running.worker(*TINY, *BY_FINALIZERS)
    finalizers = [running.finalizer(*TINY) for _ in range(2)]
    await asyncio.to_thread(settled, [worker])
    await asyncio.to_thread(shared, finalizers)
    assert not [label for label in figures(worker, "streamscribe_warmup_seconds") if "recognizer" in label]
    await let_in(gateway)
    talking = asyncio.ensure_future(all_speak(gateway, spoken))
    await asyncio.sleep(2)
    finalizers.pop(0).kill()
    assert await talking == alone
    assert figures(worker, "streamscribe_finals_answered_total")[""] >= sum(len(told) for told in alone) / 2
    for role in (worker, *finalizers):
        assert await role.stop() == 0


async def test_while_finalizers_are_behind_newcomers_are_told_to_come_back_and_who_is_there_is_heard(
    running: Cluster, gateway: Role
) -> None:
    worker = running.worker(*BY_FINALIZERS, "--set", "worker.degrade_after_ms=300")
    await asyncio.to_thread(settled, [worker])
    await let_in(gateway)
    talking = asyncio.ensure_future(all_speak(gateway, FAKE_SPEECH[:2]))
    refused = None
    while refused is None:
        try:
            await session(gateway.websocket, [])
        except ServerError as error:
            refused = error.error.name
    assert refused == "overloaded"
    assert figures(gateway, "streamscribe_shed_sessions_total")['{reason="finals"}'] >= 1
    finalizer = await asyncio.to_thread(running.finalizer)
    told = await talking
    await let_in(gateway)
    assert await heard_by(gateway, FAKE_SPEECH[:2]) == told
    for role in (worker, finalizer):
        assert await role.stop() == 0


async def test_a_finalizer_replaces_its_model_at_sighup_while_sessions_speak_and_nobody_hears_it(
    running: Cluster, gateway: Role, tmp_path: Path
) -> None:
    spoken = [np.concatenate([SILENCE, one.samples, SILENCE]).tobytes() for one in recordings("paused")][:2]
    config = tmp_path / "streamscribe.yaml"

    def version(number: int) -> None:
        """Another version of the second pass: the same files and one more."""
        folder = shutil.copytree(BUNDLED / "tiny-paraformer", tmp_path / f"version-{number}")
        (folder / "version").write_text(f"{number}")
        config.write_text(yaml.safe_dump({"model": {"folders": {"tiny-paraformer": str(folder)}}}))

    version(1)
    worker = running.worker(*TINY, *BY_FINALIZERS)
    finalizer = running.finalizer(*TINY, "--config", str(config))
    await asyncio.to_thread(settled, [worker])
    await asyncio.to_thread(shared, [finalizer])
    await let_in(gateway)
    alone = await heard_by(gateway, spoken)
    talking = asyncio.ensure_future(all_speak(gateway, spoken))
    version(2)
    finalizer.process.send_signal(signal.SIGHUP)
    swapped = '{result="done",role="recognizer"}'
    while figures(finalizer, "streamscribe_model_swaps_total").get(swapped) != 1:
        await asyncio.sleep(0.1)
    assert await talking == alone
    assert await heard_by(gateway, spoken) == alone
    for role in (worker, finalizer):
        assert await role.stop() == 0
