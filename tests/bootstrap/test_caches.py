"""The caches that settings ask for, and what is told of settings that cannot be."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamscribe.bootstrap.caches import check_context, open_caches, open_kept, redis_trouble
from streamscribe.bootstrap.platform import platform
from streamscribe.cache.levels import Levels
from streamscribe.settings import CacheSettings, Settings, SettingsError, load
from tests.cache.kit import ACME, patient_with_redis
from tests.contracts.redis_server import redis_server


def settings_of(folder: Path, **cache: Any) -> CacheSettings:
    return CacheSettings(secret_file=folder / "secret", **cache)


def tiers(settings: CacheSettings) -> dict[str, list[str]]:
    return {level.level: list(level.tiers) for level in open_caches(settings).levels.facts()}


def test_by_default_no_text_is_kept_and_nothing_outlives_the_process(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    assert tiers(settings) == {"embeddings": ["memory"], "features": ["memory"]}
    assert open_caches(settings).transcripts is None
    assert open_kept(settings).facts() == []
    assert list(tmp_path.iterdir()) == []


def test_each_level_tells_how_long_it_keeps(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, transcripts=True, feature_ttl_s=60, transcript_ttl_s=90)
    assert {level.level: level.ttl_s for level in open_caches(settings).levels.facts()} == {
        "embeddings": 60,
        "features": 60,
        "transcripts": 90,
    }


def test_every_tier_that_is_asked_for_is_there_the_nearest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_of(
        tmp_path,
        feature_cache_dir=tmp_path / "features",
        transcripts=True,
        transcript_dir=tmp_path / "texts",
        redis_url="redis://127.0.0.1:9/0",
    )
    assert tiers(settings) == {
        "embeddings": ["memory"],
        "features": ["memory", "disk"],
        "transcripts": ["memory", "disk", "redis"],
    }
    capsys.readouterr()
    kept = {level.level: dict(level.tiers) for level in open_kept(settings).facts()}
    assert {level: list(found) for level, found in kept.items()} == {
        "features": ["disk"],
        "transcripts": ["disk", "redis"],
    }
    assert kept["transcripts"]["redis"].available is False
    assert "storage fails" not in "".join(capsys.readouterr())  # what a command prints is its own
    assert (tmp_path / "secret").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("one_tenant", "kept"), [(True, 4), (False, 2)])
def test_a_server_of_one_tenant_gives_it_all_of_each_cache(tmp_path: Path, one_tenant: bool, kept: int) -> None:
    rows = np.ones((100, 80), np.float32)
    room = 4 * rows.nbytes + 2000  # features have a header each
    wishes: dict[str, Any] = {"max_encoder_bytes": room, "max_feature_cache_size": room}
    caches = open_caches(settings_of(tmp_path, tenant_share=0.5, **wishes), one_tenant=one_tenant)
    assert caches.features is not None
    for number in range(4):
        key = caches.keys.derive(ACME, "k", number)
        caches.embeddings.put(ACME, key, rows)
        caches.features.put(ACME, key, rows)
    assert {level.level: level.tiers["memory"].entries for level in caches.levels.facts()} == {
        "embeddings": kept,
        "features": kept,
    }


@pytest.mark.parametrize(("tenants_file", "kept"), [(None, 4), ("tenants.yaml", 2)])
async def test_who_names_no_tenants_file_has_one_tenant(tenants_file: str | None, kept: int) -> None:
    overrides = {"model.profile": "fake", "cache.max_encoder_entries": 4, "gateway.tenants_file": tenants_file}
    async with platform(load(None, overrides)) as parts:
        for number in range(4):
            parts.caches.embeddings.put(ACME, parts.caches.keys.derive(ACME, "k", number), np.ones((1, 4), np.float32))
        assert parts.caches.embeddings.stats().entries == kept


def test_a_redis_that_does_not_answer_is_told_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = settings_of(tmp_path, transcripts=True, redis_url="redis://127.0.0.1:9/0")
    open_caches(settings)
    assert "no Redis answers at cache.redis_url" in (redis_trouble(settings) or "")
    assert "no Redis answers at cache.redis_url" in "".join(capsys.readouterr())


def test_a_redis_that_answers_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient_with_redis(monkeypatch)
    with redis_server(tmp_path) as url:
        assert redis_trouble(settings_of(tmp_path, transcripts=True, redis_url=url)) is None
        assert "cache.transcripts is off" in (redis_trouble(settings_of(tmp_path, redis_url=url)) or "")
    assert not (tmp_path / "secret").exists()


def test_a_storage_that_fails_again_and_again_is_told_once_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"transcript_dir": tmp_path / "texts", "redis_url": "redis://127.0.0.1:9/0"}
    caches = open_caches(settings_of(tmp_path, transcripts=True, **places))
    assert caches.transcripts is not None
    shutil.rmtree(tmp_path / "texts")
    capsys.readouterr()
    for number in range(5):
        key = caches.keys.derive(ACME, "k", number)
        assert caches.transcripts.store.put(caches.keys.owner(ACME), key, b"text", 60)  # in memory
    said = "".join(capsys.readouterr())
    assert said.count("a cache's storage fails") == 2
    assert all(said.count(f"cache.{setting}") == 1 for setting in places)
    (told,) = (level.told() for level in caches.levels.facts() if level.level == "transcripts")
    memory, disk, shared = (tier.failures for tier in told.tiers)
    assert (memory, disk) == (0, 5)
    assert shared is not None
    assert shared >= 5


def test_a_shorter_time_holds_for_what_lies_there_and_who_looks_takes_nothing_away(tmp_path: Path) -> None:
    places = {"feature_cache_dir": tmp_path / "features", "transcript_dir": tmp_path / "texts"}

    def entries(levels: Levels) -> dict[str, int]:
        return {level.level: level.tiers["disk"].entries for level in levels.facts() if "disk" in level.tiers}

    caches = open_caches(settings_of(tmp_path, transcripts=True, **places))
    assert caches.features is not None
    assert caches.transcripts is not None
    caches.features.put(ACME, caches.keys.derive(ACME, "k"), np.ones((10, 80), np.float32))
    caches.transcripts.store.put(caches.keys.owner(ACME), caches.keys.derive(ACME, "k"), b"text", 7 * 86_400)
    caches.levels.close()
    shorter = settings_of(tmp_path, transcripts=True, feature_ttl_s=60, transcript_ttl_s=60, **places)
    assert entries(open_kept(shorter)) == {"features": 1, "transcripts": 1}
    assert entries(open_caches(shorter).levels) == {"features": 0, "transcripts": 0}


def test_audio_is_known_by_the_hash_that_the_settings_name(tmp_path: Path) -> None:
    clip = np.linspace(-1, 1, 16_000, dtype=np.float32)
    place = {"feature_cache_dir": tmp_path / "features"}  # so that all have one secret
    known = []
    for wish in ({}, {"fingerprint": "blake3"}, {"fingerprint": "hmac-sha256"}):
        caches = open_caches(settings_of(tmp_path, **place, **wish))
        known.append(caches.fingerprints.of(ACME, clip))
        caches.levels.close()
    assert known[0] == known[1] != known[2]


def test_no_room_for_features_is_no_level_of_them(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, max_feature_cache_size=0, feature_cache_dir=tmp_path / "features")
    assert tiers(settings) == {"embeddings": ["memory"]}


@pytest.mark.parametrize("name", ["feature_cache_dir", "transcript_dir"])
def test_a_folder_that_cannot_be_made_is_told_by_its_setting(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    wishes: dict[str, Any] = {name: tmp_path / "file" / "folder", "transcripts": True}
    with pytest.raises(SettingsError, match=rf"^setting cache\.{name}: "):
        open_caches(settings_of(tmp_path, **wishes))


@pytest.mark.parametrize("opened", [open_caches, open_kept])
@pytest.mark.parametrize("other", ["one", "two/../one", "link"])
def test_two_levels_in_one_folder_are_refused(tmp_path: Path, other: str, opened: Callable[..., Any]) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "one")
    both = {"feature_cache_dir": tmp_path / "one", "transcript_dir": tmp_path / other, "transcripts": True}
    with pytest.raises(SettingsError, match=r"^setting cache\.transcript_dir: .* its own$"):
        opened(settings_of(tmp_path, **both))
    assert not (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    "later",
    [{}, {"transcripts": False, "max_feature_cache_size": 0}, {"tenant_share": 0.01}, {"max_transcript_bytes": 2**16}],
    ids=["as before", "switched off", "a smaller share", "a smaller bound"],
)
def test_whoever_looks_finds_all_that_was_kept_and_takes_nothing_away(tmp_path: Path, later: dict[str, Any]) -> None:
    places = {"feature_cache_dir": tmp_path / "features", "transcript_dir": tmp_path / "texts"}
    caches = open_caches(settings_of(tmp_path, transcripts=True, **places))
    assert caches.features is not None
    assert caches.transcripts is not None
    for number in range(10):
        key = caches.keys.derive(ACME, "k", number)
        caches.features.put(ACME, key, np.ones((10, 80), np.float32))
        caches.transcripts.store.put(caches.keys.owner(ACME), key, bytes(20_000), 1000)
    for _ in range(2):
        kept = open_kept(settings_of(tmp_path, **places | {"transcripts": True} | later))
        assert {level.level: level.tiers["disk"].entries for level in kept.facts()} == {
            "features": 10,
            "transcripts": 10,
        }
    assert kept.purge(ACME) == {"features": 10, "transcripts": 10}
    assert [path.name for path in (tmp_path / "texts").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("off", "level"),
    [({"transcripts": False}, "features"), ({"max_feature_cache_size": 0}, "transcripts")],
)
def test_a_folder_that_no_server_has_made_because_its_level_is_off_hides_no_other_level(
    tmp_path: Path, off: dict[str, Any], level: str
) -> None:
    places = {"feature_cache_dir": tmp_path / "features", "transcript_dir": tmp_path / "texts"}
    settings = settings_of(tmp_path, **places | {"transcripts": True} | off)
    open_caches(settings).levels.close()
    there = sorted(tmp_path.iterdir())
    kept = open_kept(settings)
    assert [one.level for one in kept.facts()] == [level]
    assert kept.purge(ACME) == {level: 0}
    assert sorted(tmp_path.iterdir()) == there


@pytest.mark.parametrize("name", ["feature_cache_dir", "transcript_dir"])
def test_a_second_server_is_refused_a_folder_until_the_first_closes_it_and_who_looks_is_not(
    tmp_path: Path, name: str
) -> None:
    wishes: dict[str, Any] = {name: tmp_path / "folder", "transcripts": True}
    settings = settings_of(tmp_path, **wishes)
    first = open_caches(settings)
    with pytest.raises(SettingsError, match=rf"^setting cache\.{name}: .* another server uses it"):
        open_caches(settings)
    kept = open_kept(settings)
    assert kept.purge() is not None
    assert kept.verify() is not None
    kept.close()
    with pytest.raises(SettingsError, match="another server"):
        open_caches(settings)
    first.levels.close()
    again = open_caches(settings)
    again.levels.close()
    again.levels.close()


def test_a_server_that_was_killed_keeps_nobody_out_of_its_folder(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\n"
            "from pathlib import Path\n"
            "from streamscribe.bootstrap.caches import open_caches\n"
            "from streamscribe.settings import CacheSettings\n"
            "folder = Path(sys.argv[1])\n"
            "places = {'secret_file': folder / 'secret', 'feature_cache_dir': folder / 'features'}\n"
            "caches = open_caches(CacheSettings(**places))\n"
            "print('has it', flush=True)\n"
            "sys.stdin.read()\n",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    settings = settings_of(tmp_path, feature_cache_dir=tmp_path / "features")
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"has it\n"
        with pytest.raises(SettingsError, match="another server"):
            open_caches(settings)
        holder.kill()
    open_caches(settings).levels.close()


@pytest.mark.parametrize(
    "address",
    [
        "http://user:hunter2@host",
        "redis://user:hunter2@host:99999/0",
        "redis://user:hunter2@host/0?nonsense=1",
        "redis://user:hunter2@host/0?decode_responses=yes",
        "redis://user:hunter2@no..host/0",
    ],
)
def test_a_redis_address_that_is_none_is_told_without_its_password(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match=r"^setting cache\.redis_url: ") as caught:
        open_caches(settings_of(tmp_path, transcripts=True, redis_url=address))
    assert "hunter2" not in str(caught.value)


def test_earlier_text_is_for_models_that_read_on_from_there() -> None:
    check_context(Settings())
    for profile in ("whisper", "tiny", "zh"):
        check_context(load(None, {"cache.context_cache_ttl": 60, "model.profile": profile}))
    with pytest.raises(SettingsError, match=r"^setting cache\.context_cache_ttl: .*whisper, tiny, zh"):
        check_context(load(None, {"cache.context_cache_ttl": 60, "model.profile": "fake"}))
