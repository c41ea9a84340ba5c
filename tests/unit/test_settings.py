"""Settings: one line that names the field, and later sources win."""

from pathlib import Path
from typing import Any

import pytest

from streamscribe.settings import Settings, SettingsError, load


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("STREAMSCRIBE_") or name in {"MAX_BATCH_SIZE", "BATCH_WAIT_MS", "MAX_INFLIGHT", "REDIS_URL"}:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_the_defaults_are_valid_and_frozen() -> None:
    settings = load()
    with pytest.raises(ValueError, match="frozen"):
        settings.gateway.port = 1  # type: ignore[misc]


def test_flags_win_over_environment_over_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("limits: {burst_s: 5, max_rate: 3, max_backlog_s: 4}\n")
    monkeypatch.setenv("STREAMSCRIBE_LIMITS__BURST_S", "6")
    monkeypatch.setenv("STREAMSCRIBE_LIMITS__MAX_RATE", "5")
    limits = load(file, {"limits.max_rate": 7}).limits
    assert (limits.max_backlog_s, limits.burst_s, limits.max_rate) == (4, 6, 7)


def test_the_file_of_the_working_folder_is_read() -> None:
    Path("streamscribe.yaml").write_text("gateway: {port: 9000}\n")
    assert load().gateway.port == 9000


def test_names_that_operators_know_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_BATCH_SIZE", "3")
    monkeypatch.setenv("MAX_INFLIGHT", "77")
    monkeypatch.setenv("BATCH_WAIT_MS", "7.5")
    model = load().model
    assert (model.max_batch_size, model.batch_wait_ms, model.max_inflight) == (3, 7.5, 77)


def test_the_address_of_redis_is_read_and_its_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@cache:6379/0")
    store = load().store
    assert store.redis_url is not None
    assert store.redis_url.get_secret_value() == "redis://:hunter2@cache:6379/0"
    assert "hunter2" not in repr(store)


def test_the_redis_of_the_environment_is_the_caches_too_where_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@both")
    assert load().cache.redis_url is None
    cache = load(overrides={"cache.transcripts": True}).cache
    assert cache.redis_url is not None
    assert cache.redis_url.get_secret_value() == "redis://:hunter2@both"
    assert cache.outlives_the_process
    assert "hunter2" not in repr(cache)
    own = load(overrides={"cache.transcripts": True, "cache.redis_url": "redis://own"})
    assert own.cache.redis_url is not None
    assert own.cache.redis_url.get_secret_value() == "redis://own"
    assert own.store.redis_url is not None
    assert own.store.redis_url.get_secret_value() == "redis://:hunter2@both"


@pytest.mark.parametrize(
    ("overrides", "outlive"),
    [
        ({}, False),
        ({"cache.transcripts": True}, False),
        ({"cache.redis_url": "redis://cache", "cache.transcript_dir": "/texts"}, False),
        ({"cache.transcripts": True, "cache.redis_url": "redis://cache"}, True),
        ({"cache.transcripts": True, "cache.transcript_dir": "/texts"}, True),
        ({"cache.feature_cache_dir": "/features"}, True),
    ],
)
def test_caches_outlives_the_process_only_when_that_was_asked_for(overrides: dict[str, Any], outlive: bool) -> None:
    assert load(overrides=overrides).cache.outlives_the_process == outlive


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"gateway.port": 99_999}, "gateway.port"),
        ({"gateway.prot": 1}, "gateway.prot"),
        ({"model.profile": "gpt"}, "model.profile"),
        ({"limits.burst_s": "soon"}, "limits.burst_s"),
        ({"nothing": 1}, "nothing"),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_field(overrides: dict[str, Any], field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(overrides=overrides)
    assert field in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["- a\n", "limits: {", "limits: 3\n", "\x00"])
def test_a_file_that_is_not_settings_is_one_line(content: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError) as caught:
        load(file)
    assert "\n" not in str(caught.value)


def test_a_setting_that_does_not_exist_is_told_as_that() -> None:
    with pytest.raises(SettingsError, match=r"gateway\.prt: there is none of this name.*did you mean gateway\.port\?"):
        load(overrides={"gateway.prt": 1})


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"kafka.retention_s": 60}, {"kafka.retention_s", "limits.resume_window_s", "limits.slow_reader_timeout_s"}),
        ({"kafka.retention_s": 1800, "limits.resume_window_s": 600}, {"kafka.retention_s", "limits.resume_window_s"}),
        (
            {"kafka.retention_s": 300, "finalizer.enabled": True},
            {"kafka.retention_s", "finalizer.file_timeout_s"},
        ),
        (
            {"kafka.retention_s": 700, "finalizer.enabled": True, "finalizer.timeout_s": 900},
            {"kafka.retention_s", "finalizer.timeout_s"},
        ),
        ({"store.keep_s": 120, "limits.resume_window_s": 110}, {"store.keep_s", "limits.resume_window_s"}),
        ({"store.timeout_s": 3}, {"store.timeout_s", "store.lease_ttl_s"}),
        (
            {"store.timeout_s": 3, "store.lease_ttl_s": 5, "store.seat_ttl_s": 2},
            {"store.timeout_s", "store.seat_ttl_s"},
        ),
    ],
)
def test_settings_that_lose_sessions_together_are_refused_by_all_their_names(
    overrides: dict[str, Any], named: set[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(overrides=overrides)
    assert "\n" not in str(caught.value)
    assert all(name in str(caught.value) for name in named)


@pytest.mark.parametrize(
    "overrides",
    [
        {"limits.resume_window_s": 600, "limits.slow_reader_timeout_s": 600},
        {"kafka.retention_s": 130},
        {"kafka.retention_s": 300, "finalizer.file_timeout_s": 3600},
        {"store.keep_s": 120, "limits.max_session_s": 48 * 3600},
        {"store.timeout_s": 2},
    ],
)
def test_settings_that_do_not_concern_each_other_are_not_refused(overrides: dict[str, Any]) -> None:
    load(overrides=overrides)


def test_every_number_has_a_bound_and_every_field_a_description() -> None:
    for name, section in Settings.model_fields.items():
        for field_name, field in section.annotation.model_fields.items():  # type: ignore[union-attr]
            assert field.description, f"{name}.{field_name}"
            if field.annotation in (int, float):
                assert len(field.metadata) == 2, f"{name}.{field_name} has no bound"


@pytest.mark.parametrize(
    "overrides",
    [
        {"kafka.options": {"sasl.password": ["canary"]}},
        {"kafka.options": "canary"},
        {"store.redis_url": ["redis://:canary@host"]},
        {"cache.redis_url": ["redis://:canary@host"]},
        {"kafka": "canary"},
    ],
)
def test_what_may_be_a_password_is_not_told_back(overrides: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as raised:
        load(overrides=overrides)
    assert "canary" not in str(raised.value)
