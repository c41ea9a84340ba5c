"""A purge holds for what is on its way: nothing whose work began before it is found after it, on any level."""

import asyncio
import itertools
import random
import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamscribe.bootstrap.caches import Caches, open_caches
from streamscribe.cache.purges import Purges
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.ids import TenantId
from streamscribe.encoder.encoding import Encoding, Lookup
from streamscribe.encoder.recognition import EncodedRecognition
from streamscribe.models.ports import DecodeRequest, Embedding, Hypothesis, LookAgain, SegmentRequest, Window
from streamscribe.models.replica import Replica
from streamscribe.settings import CacheSettings
from tests.cache.kit import ACME, OTHER, SAID, SOURCES, noise
from tests.encoder.kit import FakeEncoder, clip, results, rig, until


def opened(folder: Path, **cache: Any) -> Caches:
    wishes = {"secret_file": folder / "secret", "transcripts": True, "transcript_dir": folder / "texts", **cache}
    return open_caches(CacheSettings(**wishes))


@pytest.mark.parametrize("whose", [ACME, None])
def test_an_answer_that_was_begun_before_a_purge_is_not_kept_and_anothers_is(
    tmp_path: Path, whose: TenantId | None
) -> None:
    caches = opened(tmp_path)
    kept = caches.open_transcripts()
    assert kept is not None
    asked = [SegmentRequest(noise(), tenant_id=tenant) for tenant in (ACME, OTHER)]
    begun = [kept.find(request, SOURCES).key for request in asked]
    caches.levels.purge(whose)
    stored = [kept.keep(one.tenant_id, key, SAID) for one, key in zip(asked, begun, strict=True) if key]
    assert stored == [False, whose is not None]
    assert kept.find(asked[0], SOURCES).said is None
    key = kept.find(asked[0], SOURCES).key
    assert key is not None
    assert kept.keep(ACME, key, SAID)
    assert kept.find(asked[0], SOURCES).said == SAID


def test_what_is_read_and_encoded_while_a_purge_runs_is_answered_and_not_kept(tmp_path: Path) -> None:
    caches = opened(tmp_path)
    with rig(cache=caches.embeddings, features=caches.features, purges=caches.purges) as one:
        one.occupy()
        futures = [one.submit(clip(1), tenant_id=tenant) for tenant in (ACME, OTHER)]
        one.queued(3)
        purged = caches.levels.purge(ACME)
        follower = one.submit(clip(1), tenant_id=ACME)
        until(lambda: len(one.service._flights._flight_of) == 4)
        one.encoder.gate.set()
        assert [one.num_audio_tokens for one in results([*futures, follower])] == [10] * 3
        assert purged == {"embeddings": 0, "features": 1, "transcripts": 0}
        kept = {level.level: level.tiers["memory"].entries for level in caches.levels.facts()}
        assert kept["embeddings"] == 2  # the other's, and that of who occupied the encoder
        assert [one.submit(clip(1), tenant_id=tenant).result().lookup for tenant in (ACME, OTHER)] == [
            Lookup.MISS,
            Lookup.HIT,
        ]
        assert one.submit(clip(1), tenant_id=ACME).result().lookup is Lookup.HIT


def test_features_that_are_being_read_while_a_purge_runs_are_not_kept(tmp_path: Path) -> None:
    caches = opened(tmp_path)
    reading, go_on = threading.Event(), threading.Event()

    class SlowFrontEnd(FakeEncoder):
        def features(self, samples: Embedding, *how: Any) -> Any:
            if len(samples) == 3200:
                reading.set()
                go_on.wait()
            return super().features(samples, *how)

    with rig(SlowFrontEnd(), caches.embeddings, features=caches.features, purges=caches.purges) as one:
        future = one.submit(clip(1, 3200), tenant_id=ACME)
        reading.wait()
        caches.levels.purge(ACME)
        go_on.set()
        assert future.result().lookup is Lookup.MISS
        facts = {level.level: level.tiers["memory"].entries for level in caches.levels.facts()}
        assert facts == {"embeddings": 0, "features": 0, "transcripts": 0}


async def test_a_second_look_keeps_nothing_of_what_came_before_a_purge(tmp_path: Path) -> None:
    """Whoever asked before it keeps nothing after it, though the model wants the audio again in its other window."""
    caches, reading, go_on = opened(tmp_path), threading.Event(), threading.Event()

    def decode(batch: Sequence[DecodeRequest]) -> list[Hypothesis | LookAgain]:
        reading.set()
        go_on.wait()
        return [LookAgain(Window.FULL, "seen") if one.looked is None else Hypothesis("", None) for one in batch]

    with rig(cache=caches.embeddings, features=caches.features, purges=caches.purges) as one:
        model = Replica("fake language model", decode, policy=BatchPolicy(), on_step=lambda report: None)
        model.start()
        stage = EncodedRecognition(one.service, model, policy=BatchPolicy())
        request = SegmentRequest(clip(1), tenant_id=ACME)
        asked = asyncio.ensure_future(stage.submit(request, priority=Priority.URGENT, audio_s=1))
        await asyncio.to_thread(reading.wait)
        await asyncio.to_thread(caches.levels.purge, ACME)
        go_on.set()
        await asked
        assert one.encoder.encoded(clip(1)) == 1
        assert len(one.encoder.batches) == 2
        kept = {level.level: level.tiers["memory"].entries for level in caches.levels.facts()}
        assert kept == {"embeddings": 0, "features": 0, "transcripts": 0}
        model.close()


def test_after_a_purge_nothing_is_found_whose_encoding_was_asked_for_before_in_random_schedules(
    tmp_path: Path,
) -> None:
    caches = opened(tmp_path)
    choose, tenants = random.Random(0), [ACME, OTHER]
    asked: dict[tuple[TenantId, int], bool] = {}
    found = 0
    with rig(cache=caches.embeddings, features=caches.features, purges=caches.purges, wait_ms=0) as one:
        for _ in range(150):
            futures: dict[tuple[TenantId, int], list[tuple[bool | None, Future[Encoding]]]] = defaultdict(list)
            for _ in range(choose.randrange(1, 8)):
                tenant, seed = choose.choice(tenants), choose.randrange(6)
                if choose.random() < 0.2:
                    caches.levels.purge(tenant)
                    asked = {key: False for key in asked if key[0] != tenant} | {
                        key: True for key in asked if key[0] == tenant
                    }
                else:
                    asked_before = asked.get((tenant, seed))
                    futures[tenant, seed].append((asked_before, one.submit(clip(seed, 1600), tenant_id=tenant)))
                    asked[tenant, seed] = False
            for equal in futures.values():
                hits = [future.result().lookup is Lookup.HIT for _, future in equal]
                found += sum(hits)
                if len(equal) == 1:  # of several at once, an earlier one may find what a later one had kept
                    assert not (equal[0][0] and hits[0])
    assert found > 30
    one.cache.check_integrity()


def test_a_purge_waits_for_what_is_being_put_and_not_for_what_comes_later() -> None:
    purges, putting, go_on, purged = Purges(), threading.Event(), threading.Event(), threading.Event()

    def put() -> bool:
        putting.set()
        go_on.wait()
        return True

    def purge() -> None:
        purges.purge(ACME)
        purged.set()

    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(purges.keep, OTHER, purges.begin(), put)
        putting.wait()
        began = purges.begin()
        purging = threads.submit(purge)
        while purges.begin() == began:
            threading.Event().wait(0.001)
        assert not purged.is_set()
        assert purges.keep(ACME, purges.begin(), lambda: True)
        assert not purges.keep(ACME, began, lambda: True)
        go_on.set()
        assert slow.result()
        purging.result()
    purges.check_integrity()


def test_a_put_that_fails_holds_no_purge_up() -> None:
    purges = Purges()
    with pytest.raises(ZeroDivisionError):
        purges.keep(ACME, purges.begin(), lambda: 1 // 0)
    purges.purge(None)
    purges.check_integrity()


def test_after_a_purge_nothing_is_found_that_began_before_with_8_threads_and_two_tenants(tmp_path: Path) -> None:
    caches = opened(tmp_path)
    assert caches.transcripts is not None
    purges, store, keys, ticks = caches.purges, caches.transcripts.store, caches.keys, itertools.count(1)
    places = {tenant: [keys.derive(tenant, "test", clip) for clip in range(8)] for tenant in (ACME, OTHER)}
    last_purge = {ACME: 0, OTHER: 0}
    turn = threading.Lock()

    def began(data: bytes | None) -> int:
        return 1 << 60 if data is None else int(data)

    def work(seed: int) -> None:
        choose = random.Random(seed)
        for _ in range(150):
            tenant = choose.choice([ACME, OTHER])
            key = choose.choice(places[tenant])
            if choose.random() < 0.05:
                with turn:
                    at = next(ticks)
                    caches.levels.purge(tenant)
                    last_purge[tenant] = at
            elif choose.random() < 0.5:
                epoch = purges.begin()
                data = str(next(ticks)).encode()
                purges.keep(tenant, epoch, lambda: store.put(keys.owner(tenant), key, data, 60))  # noqa: B023 - called at once
            else:
                purged = last_purge[tenant]
                blob = store.get(key)
                assert began(None if blob is None else blob.data) > purged

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, seed) for seed in range(8)]:
            done.result()
    purges.check_integrity()
    assert store.usage().entries > 0
    caches.levels.purge()
    assert store.usage().entries == 0
