"""Several workers that share a Redis, asked as one: what is purged in all of them is in none."""

import asyncio
import itertools
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from streamscribe.bootstrap.caches import open_caches
from streamscribe.bootstrap.desk import Asked, LevelsDesk, WorkersDesk
from streamscribe.cache.transcripts import Said
from streamscribe.core.ids import TenantId
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.settings import CacheSettings
from streamscribe.wire.rest import encode
from tests.cache.kit import ACME, OTHER, SAID, SOURCES, noise, patient_with_redis
from tests.contracts.redis_server import redis_server


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


class Worker:
    """What one worker process keeps of what it recognised."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        wishes = {"secret_file": folder / "secret", "transcripts": True, "redis_url": redis_url}
        self.caches = open_caches(CacheSettings.model_validate(wishes))
        transcripts = self.caches.open_transcripts()
        assert transcripts is not None
        self.transcripts = transcripts
        self.desk = LevelsDesk(self.caches.levels)

    def begin(self, seed: int, tenant: TenantId = ACME) -> Callable[[], bool]:
        """Looks for a segment's transcript, finds none, and gives what keeps it later."""
        found = self.transcripts.find(SegmentRequest(noise(seed), tenant_id=tenant), SOURCES)
        assert found.said is None
        key = found.key
        assert key is not None
        return lambda: self.transcripts.keep(tenant, key, SAID)

    def knows(self, seed: int, tenant: TenantId = ACME) -> bool:
        return self.transcripts.find(SegmentRequest(noise(seed), tenant_id=tenant), SOURCES).said is not None


@pytest.fixture
def workers(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    patient_with_redis(monkeypatch)
    workers = [Worker(tmp_path, redis_url) for _ in range(2)]
    yield workers
    for worker in workers:
        worker.caches.levels.purge()
        worker.caches.levels.close()


def one_after_the_other(
    workers: Sequence[Worker], between: Callable[[], None]
) -> Callable[[Asked, TenantId | None], Awaitable[Sequence[msgspec.Raw]]]:
    """Asks each worker; `between` them something happens, the first time."""
    happened = False

    async def ask_all(asked: Asked, tenant: TenantId | None) -> Sequence[msgspec.Raw]:
        nonlocal happened
        told = []
        for worker in workers:
            told.append(msgspec.Raw(encode(await worker.desk.answer(asked, tenant))))
            if not happened:
                happened = True
                between()
        return told

    return ask_all


async def test_what_one_worker_keeps_and_another_reads_between_their_purges_is_in_none_when_all_are_over(
    workers: list[Worker],
) -> None:
    first, second = workers
    late, others = second.begin(1), second.begin(2, OTHER)

    def between() -> None:
        assert late()
        assert others()
        assert first.knows(1)
        assert first.knows(2, OTHER)

    await WorkersDesk(one_after_the_other(workers, between)).purge(ACME)
    assert not first.knows(1)
    assert not second.knows(1)
    assert first.knows(2, OTHER)


async def test_what_several_workers_began_before_a_purge_is_put_back_by_none_of_them(workers: list[Worker]) -> None:
    late = [worker.begin(3) for worker in workers]
    await WorkersDesk(one_after_the_other(workers, lambda: None)).purge(ACME)
    assert [keep() for keep in late] == [False, False]
    assert not any(worker.knows(3) for worker in workers)


async def test_what_is_told_to_be_purged_is_what_each_worker_had_when_it_was_asked_first(workers: list[Worker]) -> None:
    first, second = workers
    assert first.begin(4)()
    assert second.knows(4)
    late = second.begin(5)

    def between() -> None:
        assert late()
        assert first.knows(5)

    purged = await WorkersDesk(one_after_the_other(workers, between)).purge(ACME)
    assert (purged.purged["transcripts"], purged.workers) == (1 + 2, 2)


async def test_after_a_purge_no_worker_finds_what_was_begun_before_it_with_four_threads_on_each(
    workers: list[Worker],
) -> None:
    ticks, last_purge, found = itertools.count(1), 0, 0

    async def ask_all(asked: Asked, tenant: TenantId | None) -> Sequence[msgspec.Raw]:
        told = await asyncio.gather(*(worker.desk.answer(asked, tenant) for worker in workers))
        return [msgspec.Raw(encode(one)) for one in told]

    def work(worker: Worker, seed: int) -> None:
        nonlocal found
        choose = random.Random(seed)
        while not over.is_set():
            purged = last_purge
            said = worker.transcripts.find(
                request := SegmentRequest(clips[choose.randrange(4)], tenant_id=ACME), SOURCES
            )
            if said.said is not None:
                assert int(said.said.heard.text) > purged
                found += 1
            elif said.key is not None:
                began = Said(Hypothesis(str(next(ticks))))
                over.wait(choose.choice([0, 0.001, 0.005]))
                worker.transcripts.keep(request.tenant_id, said.key, began)

    over, clips = threading.Event(), [noise(seed, 1600) for seed in range(4)]
    with ThreadPoolExecutor(8) as threads:
        working = [threads.submit(work, worker, seed) for seed in range(4) for worker in workers]
        try:
            for _ in range(20):
                at = next(ticks)
                await WorkersDesk(ask_all).purge(ACME)
                last_purge = at
                await asyncio.sleep(0.005)
        finally:
            over.set()
        for one in working:
            one.result()
    assert found
