"""What was begun before a purge is not there after it, on any level and in any tier: each is caught at its worst."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamscribe.bootstrap.caches import Caches, Kept, open_caches
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import CacheSettings
from tests.cache.kit import ACME, SAID, SOURCES, noise, patient_with_redis
from tests.contracts.redis_server import redis_server
from tests.encoder.kit import FakeEncoder, clip, rig, until

EVERYWHERE = [
    ("embeddings", "memory"),
    ("features", "memory"),
    ("features", "disk"),
    ("transcripts", "memory"),
    ("transcripts", "disk"),
    ("transcripts", "redis"),
]
BEYOND_MEMORY = [place for place in EVERYWHERE if place[1] != "memory"]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def caches(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caches]:
    patient_with_redis(monkeypatch)
    wishes = {
        "secret_file": tmp_path / "secret",
        "feature_cache_dir": tmp_path / "rows",
        "transcripts": True,
        "transcript_dir": tmp_path / "texts",
        "redis_url": redis_url,
    }
    caches = open_caches(CacheSettings.model_validate(wishes))
    caches.embeddings.enter(("of the fake", *FakeEncoder.encoder_identity))  # so that they outlive each service
    yield caches
    caches.levels.purge()
    caches.levels.close()


class Gate:
    """Holds one method of a place, the first time that it is called, before or after what it does."""

    def __init__(self, place: Any, method: str, *, after: bool) -> None:
        self._does: Callable[..., Any] = getattr(place, method)
        self._after = after
        self.reached, self.go_on = threading.Event(), threading.Event()
        setattr(place, method, self)

    def __call__(self, *given: Any, **how: Any) -> Any:
        done = self._does(*given, **how) if self._after else None
        if not self.reached.is_set():
            self.reached.set()
            self.go_on.wait()
        return done if self._after else self._does(*given, **how)


def place_of(caches: Caches, level: str, tier: str) -> Any:
    return caches.embeddings if level == "embeddings" else kept_of(caches, level).tiers[tier]


def kept_of(caches: Caches, level: str) -> Kept:
    kept = caches.kept_features if level == "features" else caches.transcripts
    assert kept is not None
    return kept


def held(caches: Caches) -> dict[str, int]:
    facts = caches.levels.facts()
    return {f"{level.level} {tier}": usage.entries for level in facts for tier, usage in level.tiers.items()}


def work(caches: Caches, level: str) -> None:
    """What a worker does with a segment, and what it keeps of it: encodings and features, or a transcript."""
    if level != "transcripts":
        with rig(cache=caches.embeddings, features=caches.features, purges=caches.purges) as one:
            one.submit(clip(1), tenant_id=ACME).result()
        return
    transcripts = caches.open_transcripts()
    assert transcripts is not None
    found = transcripts.find(SegmentRequest(noise(1), tenant_id=ACME), SOURCES)
    if found.key is not None and found.said is None:
        transcripts.keep(ACME, found.key, SAID)


@pytest.mark.parametrize("after", [False, True], ids=["before it lands", "when it has landed"])
@pytest.mark.parametrize(("level", "tier"), EVERYWHERE)
def test_what_is_being_put_when_a_purge_begins_is_not_there_when_it_is_over(
    caches: Caches, level: str, tier: str, *, after: bool
) -> None:
    gate = Gate(place_of(caches, level, tier), "put", after=after)
    with ThreadPoolExecutor(2) as threads:
        working = threads.submit(work, caches, level)
        gate.reached.wait()
        began = caches.purges.begin()
        purging = threads.submit(caches.levels.purge, ACME)
        until(lambda: caches.purges.begin() > began)
        gate.go_on.set()
        purging.result()
        working.result()
    assert not any(held(caches).values())
    work(caches, level)
    assert held(caches)[f"{level} {tier}"] == 1


@pytest.mark.parametrize(("level", "tier"), BEYOND_MEMORY)
def test_what_is_being_read_when_it_is_purged_comes_no_nearer(caches: Caches, level: str, tier: str) -> None:
    work(caches, level)
    nearer = list(kept_of(caches, level).tiers)
    for name in nearer[: nearer.index(tier)]:
        place_of(caches, level, name).purge()
    caches.embeddings.purge()
    gate = Gate(place_of(caches, level, tier), "get", after=True)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work, caches, level)
        gate.reached.wait()
        caches.levels.purge(ACME)
        gate.go_on.set()
        working.result()
    assert not any(held(caches).values())
