"""The caches' secret: random where nothing outlives the process, else one file for its owner's eyes."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamscribe.cache.secret import cache_secret
from streamscribe.settings import CacheSettings, SettingsError


@pytest.fixture
def settings(tmp_path):
    return CacheSettings(feature_cache_dir=tmp_path / "features", secret_file=tmp_path / "new" / "secret")


def test_a_server_whose_caches_end_with_it_has_a_secret_of_its_own_and_writes_none(tmp_path):
    settings = CacheSettings(secret_file=tmp_path / "secret")
    assert cache_secret(settings) != cache_secret(settings)
    assert len(cache_secret(settings)) == 32
    assert not settings.secret_file.exists()


def test_a_server_whose_caches_outlive_it_has_the_same_after_a_restart(settings):
    secret = cache_secret(settings)
    assert len(secret) >= 32
    assert cache_secret(settings) == secret
    assert stat.S_IMODE(settings.secret_file.stat().st_mode) == 0o600
    assert list(settings.secret_file.parent.iterdir()) == [settings.secret_file]


def test_servers_that_start_together_agree(settings):
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: cache_secret(settings), range(50)))) == 1


def test_a_file_that_others_may_read_is_refused(settings):
    cache_secret(settings)
    settings.secret_file.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        cache_secret(settings)


def test_a_file_that_holds_too_little_is_refused(settings):
    settings.secret_file.parent.mkdir()
    settings.secret_file.touch(0o600)
    with pytest.raises(SettingsError, match="at least 32"):
        cache_secret(settings)


def test_a_file_that_cannot_be_made_is_told_in_one_line(settings, tmp_path):
    (tmp_path / "new").write_text("no folder")
    with pytest.raises(SettingsError, match=r"cache\.secret_file") as told:
        cache_secret(settings)
    assert "\n" not in str(told.value)
