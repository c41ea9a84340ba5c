"""What settings name is a file or a folder of a bounded size, or the start says at once which setting is wrong."""

import os
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from streamscribe.bootstrap.caches import open_caches, open_kept
from streamscribe.bootstrap.engines import EngineLoader
from streamscribe.bootstrap.tenants import open_tenants
from streamscribe.core.errors import ModelUnavailable
from streamscribe.settings import Settings, SettingsError, load
from streamscribe.store.keys import PEPPER_VARIABLE, pepper_path

pytestmark = pytest.mark.timeout(30)

GIB = 1 << 30


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def folder(path: Path) -> None:
    path.mkdir(mode=0o700)


def huge(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 64 * GIB)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nowhere(path: Path) -> None:
    path.symlink_to(path)


def no_text(path: Path) -> None:
    path.touch(0o600)
    path.write_bytes(bytes(range(128, 256)))


def _installed(settings: Settings) -> object:
    try:
        return EngineLoader(settings.model).vad()
    except ModelUnavailable as unavailable:
        raise SettingsError(f"setting model.dir: {unavailable}") from None


FILES: dict[str, Callable[[Settings], object]] = {
    "gateway.tenants_file": open_tenants,
    "cache.secret_file": lambda settings: open_caches(settings.cache),
}
FOLDERS: dict[str, Callable[[Settings], object]] = {
    "cache.feature_cache_dir": lambda settings: open_caches(settings.cache),
    "cache.transcript_dir": lambda settings: open_kept(settings.cache),
    "model.folders": lambda settings: EngineLoader(settings.model).vad(),
    "model.dir": _installed,
}


def named(setting: str, path: Path, tmp_path: Path) -> Settings:
    """Settings that name `path`, and nothing else that is wrong."""
    wishes: dict[str, Any] = {
        "cache.secret_file": tmp_path / "secret",
        "cache.feature_cache_dir": tmp_path / "features",
        "cache.transcripts": True,
        "model.dir": tmp_path,
        setting: {"fsmn-vad": path} if setting == "model.folders" else path,
    }
    return load(None, wishes)


@pytest.mark.parametrize("setting", FILES)
@pytest.mark.parametrize("make", [pipe, folder, huge, endless, nowhere])
def test_what_is_no_small_file_is_told_at_once_with_its_setting(
    setting: str, make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PEPPER_VARIABLE, "p" * 32)
    make(tmp_path / "named")
    with pytest.raises(SettingsError, match=rf"^setting {setting}: .*named: ") as told:
        FILES[setting](named(setting, tmp_path / "named", tmp_path))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("setting", FILES)
def test_a_folder_without_a_name_is_told_as_any_other(setting: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"^setting {setting}: \.: "):
        FILES[setting](named(setting, Path(), tmp_path))


@pytest.mark.parametrize("setting", FOLDERS)
@pytest.mark.parametrize("make", [pipe, huge, endless, nowhere])
def test_what_is_no_folder_is_told_at_once_with_its_setting(
    setting: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "named")
    (tmp_path / "features").mkdir()
    with pytest.raises(SettingsError, match=rf"^setting {setting}") as told:
        FOLDERS[setting](named(setting, tmp_path / "named", tmp_path))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("make", [pipe, folder, huge, endless, nowhere, no_text])
def test_a_pepper_that_is_no_small_file_is_told_at_once(make: Callable[[Path], None], tmp_path: Path) -> None:
    tenants = tmp_path / "tenants.yaml"
    tenants.write_text("tenants: {}")
    make(pepper_path(tenants))
    with pytest.raises(SettingsError, match=r"^setting gateway\.tenants_file: .*tenants\.yaml\.pepper: "):
        open_tenants(named("gateway.tenants_file", tenants, tmp_path))


@pytest.mark.parametrize("make", [pipe, folder, huge, endless, nowhere])
def test_a_tenants_file_that_becomes_none_changes_nothing(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PEPPER_VARIABLE, "p" * 32)
    tenants = tmp_path / "tenants.yaml"
    tenants.write_text("tenants: {}")
    store = open_tenants(named("gateway.tenants_file", tenants, tmp_path))
    assert store is not None
    tenants.unlink()
    make(tenants)
    with pytest.raises(SettingsError, match=r"tenants\.yaml: "):
        store.refresh()


def test_every_setting_that_names_a_file_or_a_folder_is_looked_at_here() -> None:
    assert set(_named_by(Settings, "")) == FILES.keys() | FOLDERS.keys()


def _named_by(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, BaseModel):
            yield from _named_by(kind, f"{prefix}{name}.")
        elif kind is Path or Path in get_args(kind):
            yield f"{prefix}{name}"
