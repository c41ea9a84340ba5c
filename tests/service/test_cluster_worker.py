"""Workers of a cluster that are not fit any more leave their group: others go on with their sessions."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.service.cluster_kit import Cluster, cluster
from tests.service.test_cluster import SPEECH, heard_by, settled, speaking

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


UNFIT = ("model.step_timeout_s=0.5", "model.fake_cost_ms=4000")


async def test_a_worker_that_hangs_leaves_ends_with_an_error_and_costs_no_session(running: Cluster) -> None:
    gateway = running.gateway()
    fit = await asyncio.to_thread(running.worker)
    await asyncio.to_thread(settled, [fit])
    alone = await heard_by(gateway)
    flags = [flag for setting in UNFIT for flag in ("--set", setting)]
    leaver = await asyncio.to_thread(running.worker, *flags)
    while leaver.process.poll() is None:  # until the gateway knows what partitions it has, and it gets sessions
        assert await asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH)) == alone
    assert leaver.process.returncode not in (0, None)
    for role in (gateway, fit):
        role.kill()


async def test_a_worker_that_outgrows_its_memory_ends_names_setting_and_figures_and_costs_no_session(
    running: Cluster,
) -> None:
    gateway = running.gateway()
    fit = await asyncio.to_thread(running.worker)
    await asyncio.to_thread(settled, [fit])
    alone = await heard_by(gateway)
    talking = asyncio.gather(*(speaking(gateway, pcm) for pcm in SPEECH))
    with pytest.raises(AssertionError, match=r"had \d+ bytes, and worker\.max_memory_bytes is 1000000"):
        await asyncio.to_thread(running.worker, "--set", "worker.max_memory_bytes=1000000")
    assert await talking == alone
    for role in (gateway, fit):
        role.kill()
